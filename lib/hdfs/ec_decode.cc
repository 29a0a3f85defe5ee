#include "lib/hdfs/ec_decode.h"

#include <isa-l/erasure_code.h>

#include <algorithm>

namespace paceline::hdfs {
namespace {

constexpr size_t kTableBytes = 32;  // of ISA-L, for each factor

// One row of factors for each unit, which say what it is of the data units.
std::vector<uint8_t> UnitMatrix(const EcPolicy& policy) {
  const size_t units = policy.data_units + policy.parity_units;
  std::vector<uint8_t> matrix(units * policy.data_units, 0);
  if (policy.codec == EcPolicy::Codec::kReedSolomon) {
    gf_gen_cauchy1_matrix(matrix.data(), static_cast<int>(units), static_cast<int>(policy.data_units));
    return matrix;
  }
  for (size_t i = 0; i < policy.data_units; ++i) {
    matrix[i * policy.data_units + i] = 1;
    matrix[policy.data_units * policy.data_units + i] = 1;
  }
  return matrix;
}

}  // namespace

Status EcCompute(const EcPolicy& policy, std::span<const uint32_t> available,
                 std::span<const std::vector<std::byte>> contents, uint32_t lost, std::span<std::byte> out) {
  using Codec = EcPolicy::Codec;
  const size_t data_units = policy.data_units;
  if (policy.codec == Codec::kOther || (policy.codec == Codec::kXor && policy.parity_units != 1)) {
    return UnimplementedError("erasure coding policy " + policy.name +
                              ": lost units cannot be computed by this client");
  }
  CHECK(available.size() == data_units && contents.size() == data_units);
  const std::vector<uint8_t> matrix = UnitMatrix(policy);
  std::vector<uint8_t> rows, inverse(data_units * data_units);
  for (const uint32_t unit : available) {
    const auto row = matrix.begin() + static_cast<ptrdiff_t>(unit * data_units);
    rows.insert(rows.end(), row, row + static_cast<ptrdiff_t>(data_units));
  }
  if (gf_invert_matrix(rows.data(), inverse.data(), static_cast<int>(data_units)) != 0) {
    return InternalError("erasure coding policy " + policy.name + ": the units depend on each other");
  }
  // data = inverse * available, and the lost unit = its row * data.
  std::vector<uint8_t> factors(data_units, 0);
  for (size_t i = 0; i < data_units; ++i) {
    for (size_t j = 0; j < data_units; ++j) {
      factors[j] ^= gf_mul(matrix[lost * data_units + i], inverse[i * data_units + j]);
    }
  }
  std::vector<uint8_t> tables(kTableBytes * data_units);
  ec_init_tables(static_cast<int>(data_units), 1, factors.data(), tables.data());
  // ISA-L takes what it only reads without const.
  std::vector<uint8_t*> sources;
  for (const std::vector<std::byte>& bytes : contents) {
    CHECK(bytes.size() == out.size());
    sources.push_back(reinterpret_cast<uint8_t*>(const_cast<std::byte*>(bytes.data())));
  }
  uint8_t* result = reinterpret_cast<uint8_t*>(out.data());
  ec_encode_data(static_cast<int>(out.size()), static_cast<int>(data_units), 1, tables.data(), sources.data(), &result);
  return Status();
}

}  // namespace paceline::hdfs
