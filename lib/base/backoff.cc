#include "lib/base/backoff.h"

#include <memory>
#include <random>

namespace paceline {

RandomSource MakeRandomSource() {
  std::random_device entropy;
  std::seed_seq seed{entropy(), entropy(), entropy(), entropy()};
  return [engine = std::mt19937_64(seed)]() mutable {
    return std::generate_canonical<double, 53>(engine) * (1.0 - 1e-16);  // rounding may give exactly 1 otherwise
  };
}

}  // namespace paceline
