#include "tests/collectives/schedule.h"

#include <charconv>

namespace paceline::collectives {

namespace {

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

template <typename Number>
bool ReadNumber(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

bool ReadItem(const std::string& text, Item& item) {
  const std::vector<std::string> parts = Split(text, ':');
  const std::string& verb = parts[0];
  if (verb == "sync") return parts.size() == 1;
  if (verb == "compute" || verb == "burn") {
    item.kind = verb == "burn" ? Item::Kind::kBurn : Item::Kind::kCompute;
    return parts.size() == 2 && ReadNumber(parts[1], item.count);
  }
  if (parts.size() < 3) return false;
  item.comm = parts[1];
  if (!ReadNumber(parts.back(), item.count)) return false;
  if (verb == "pass") {
    item.kind = Item::Kind::kPass;
    if (parts.size() != 4) return false;
    const std::vector<std::string> ends = Split(parts[2], '>');
    return ends.size() == 2 && ReadNumber(ends[0], item.from) && ReadNumber(ends[1], item.to);
  }
  item.kind = verb == "exchange" ? Item::Kind::kExchange : Item::Kind::kCollective;
  if (verb == "reducescatter") item.function = Function::kReduceScatter;
  if (verb == "allgather") item.function = Function::kAllGather;
  const bool is_known = verb == "exchange" || verb == "allreduce" || verb == "reducescatter" || verb == "allgather";
  return is_known && parts.size() == 3;
}

}  // namespace

Result<std::vector<Item>> ParseSchedule(std::string_view text) {
  std::vector<Item> items;
  for (const std::string& part : Split(text, ';')) {
    Item item;
    if (!ReadItem(part, item)) return InvalidArgumentError("schedule: \"" + part + "\" is not understood");
    items.push_back(std::move(item));
  }
  return items;
}

Result<CommDescription> ParseComm(std::string_view text, uint32_t index) {
  const size_t equals = text.find('=');
  CommDescription comm;
  comm.index = index;
  bool is_good = equals != std::string_view::npos && equals > 0;
  if (is_good) {
    comm.name = text.substr(0, equals);
    for (const std::string& part : Split(text.substr(equals + 1), ',')) {
      is_good = is_good && ReadNumber(part, comm.members.emplace_back());
    }
  }
  if (!is_good) return InvalidArgumentError("communicator \"" + std::string(text) + "\": want NAME=0,1,2");
  return comm;
}

}  // namespace paceline::collectives
