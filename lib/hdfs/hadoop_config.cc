#include "lib/hdfs/hadoop_config.h"

#include <expat.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>

namespace paceline::hdfs {
namespace {

constexpr uint16_t kDefaultRpcPort = 8020;

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return "";
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// Collects <property><name>..</name><value>..</value><final>..</final></property>; elements that Hadoop knows beside
// these (description, source, tag) are passed over, text outside is ignored.
struct Parser {
  struct Property {
    std::string name, value;
    bool has_value = false, is_final = false;
  };
  XML_Parser xml = nullptr;
  int depth = 0;
  std::string element, text, refusal;
  Property current;
  std::vector<Property> done;

  void Refuse(std::string why) {
    if (refusal.empty()) refusal = std::move(why);
    XML_StopParser(xml, XML_FALSE);
  }
  static void OnStart(void* self, const XML_Char* name, const XML_Char**) { static_cast<Parser*>(self)->Start(name); }
  static void OnEnd(void* self, const XML_Char* name) { static_cast<Parser*>(self)->End(name); }
  static void OnText(void* self, const XML_Char* text, int size) {
    static_cast<Parser*>(self)->text.append(text, static_cast<size_t>(size));
  }
  // A DTD can pull in files and blow up by nested entities; a Hadoop file has none.
  static void OnDoctype(void* self, const XML_Char*, const XML_Char*, const XML_Char*, int) {
    static_cast<Parser*>(self)->Refuse("a DOCTYPE is not allowed");
  }

  void Start(std::string_view name) {
    if (depth == 0 && name != "configuration") Refuse("the outermost element must be <configuration>");
    if (depth == 1 && name == "property") current = Property();
    ++depth;
    text.clear();
  }
  void End(std::string_view name) {
    --depth;
    if (depth == 2) {
      if (name == "name") current.name = Trim(text);
      if (name == "value") current.value = text, current.has_value = true;
      if (name == "final") current.is_final = Trim(text) == "true";
    }
    if (depth == 1 && name == "property" && !current.name.empty() && current.has_value) done.push_back(current);
    text.clear();
  }
};

}  // namespace

Status HadoopConfig::AddXml(std::string_view name, std::string_view xml) {
  struct Free {
    void operator()(XML_Parser parser) const { XML_ParserFree(parser); }
  };
  std::unique_ptr<std::remove_pointer_t<XML_Parser>, Free> expat(XML_ParserCreate("UTF-8"));
  Parser parser;
  parser.xml = expat.get();
  XML_SetUserData(expat.get(), &parser);
  XML_SetElementHandler(expat.get(), Parser::OnStart, Parser::OnEnd);
  XML_SetCharacterDataHandler(expat.get(), Parser::OnText);
  XML_SetStartDoctypeDeclHandler(expat.get(), Parser::OnDoctype);
  const bool is_whole = XML_Parse(expat.get(), xml.data(), static_cast<int>(xml.size()), XML_TRUE) == XML_STATUS_OK;
  if (!is_whole || !parser.refusal.empty()) {
    const std::string why = parser.refusal.empty() ? XML_ErrorString(XML_GetErrorCode(expat.get())) : parser.refusal;
    return InvalidArgumentError(fmt::format("{}:{}: {}", name, XML_GetCurrentLineNumber(expat.get()), why));
  }
  for (Parser::Property& property : parser.done) {
    Property& held = properties_[property.name];
    if (held.is_final) continue;
    held = {std::move(property.value), property.is_final};
  }
  return Status();
}

void HadoopConfig::Set(const std::string& key, std::string value) {
  properties_[key] = {std::move(value), /*is_final=*/true};
}

std::optional<std::string> HadoopConfig::Resolve(const std::string& reference, std::vector<std::string>& open) const {
  constexpr std::string_view kEnv = "env.";
  if (reference.starts_with(kEnv)) {
    const size_t dash = reference.find('-');
    std::string variable = reference.substr(kEnv.size(), dash == std::string::npos ? dash : dash - kEnv.size());
    // "NAME:-x" falls back when the variable is absent or empty, "NAME-x" only when it is absent.
    const bool empty_counts_as_absent = !variable.empty() && variable.back() == ':';
    if (empty_counts_as_absent) variable.pop_back();
    std::optional<std::string> value = env_ ? env_(variable) : std::nullopt;
    if (value.has_value() && !(empty_counts_as_absent && value->empty())) return value;
    if (dash != std::string::npos) return reference.substr(dash + 1);
    return std::nullopt;
  }
  if (std::find(open.begin(), open.end(), reference) != open.end()) return std::nullopt;
  const auto found = properties_.find(reference);
  if (found == properties_.end()) return std::nullopt;
  open.push_back(reference);
  std::string value = Expand(found->second.value, open);
  open.pop_back();
  return value;
}

std::string HadoopConfig::Expand(std::string_view text, std::vector<std::string>& open) const {
  std::string out;
  while (!text.empty()) {
    const size_t start = text.find("${");
    const size_t end = start == std::string_view::npos ? start : text.find('}', start);
    if (end == std::string_view::npos) break;
    out += text.substr(0, start);
    const std::string reference(text.substr(start + 2, end - start - 2));
    if (std::optional<std::string> value = Resolve(reference, open)) {
      out += *value;
    } else {
      out += text.substr(start, end - start + 1);
    }
    text.remove_prefix(end + 1);
  }
  return out.append(text);
}

std::optional<std::string> HadoopConfig::Get(const std::string& key) const {
  const auto found = properties_.find(key);
  if (found == properties_.end()) return std::nullopt;
  std::vector<std::string> open = {key};
  return std::string(Trim(Expand(found->second.value, open)));
}

std::string HadoopConfig::GetOr(const std::string& key, std::string_view fallback) const {
  return Get(key).value_or(std::string(fallback));
}

Result<int64_t> HadoopConfig::GetInt(const std::string& key, int64_t fallback) const {
  const std::optional<std::string> text = Get(key);
  if (!text.has_value() || text->empty()) return fallback;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size()) {
    return InvalidArgumentError(fmt::format("{}: \"{}\" is no whole number", key, *text));
  }
  return value;
}

Result<bool> HadoopConfig::GetBool(const std::string& key, bool fallback) const {
  const std::optional<std::string> text = Get(key);
  if (!text.has_value() || text->empty()) return fallback;
  if (*text == "true" || *text == "TRUE" || *text == "True") return true;
  if (*text == "false" || *text == "FALSE" || *text == "False") return false;
  return InvalidArgumentError(fmt::format("{}: \"{}\" is neither true nor false", key, *text));
}

std::vector<std::string> HadoopConfig::GetList(const std::string& key) const {
  std::vector<std::string> items;
  const std::string text = GetOr(key, "");
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    if (const std::string_view item = Trim(rest.substr(0, comma)); !item.empty()) items.emplace_back(item);
    rest = comma == std::string_view::npos ? "" : rest.substr(comma + 1);
  }
  return items;
}

std::optional<uint64_t> ConfiguredBlockSize(const HadoopConfig& config) {
  std::string text = config.GetOr("dfs.blocksize", "");
  int shift = 0;
  if (!text.empty()) {
    constexpr std::string_view kUnits = "kmgt";
    const size_t unit = kUnits.find(static_cast<char>(text.back() | 0x20));
    if (unit != std::string_view::npos) {
      shift = static_cast<int>(unit + 1) * 10;
      text.pop_back();
    }
  }
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value == 0 || value > (UINT64_MAX >> 42)) {
    return std::nullopt;
  }
  return value << shift;
}

Result<NameNodeAddress> ParseHostPort(std::string_view text, uint16_t default_port) {
  NameNodeAddress address;
  address.port = default_port;
  std::string_view port;
  if (text.starts_with('[')) {
    const size_t close = text.find(']');
    if (close == std::string_view::npos) return InvalidArgumentError(fmt::format("\"{}\": no closing bracket", text));
    address.host = text.substr(1, close - 1);
    port = text.substr(close + 1);
  } else {
    const size_t colon = text.find(':');
    address.host = text.substr(0, colon);
    port = colon == std::string_view::npos ? "" : text.substr(colon);
  }
  if (address.host.empty()) return InvalidArgumentError(fmt::format("\"{}\": no host", text));
  if (port.empty()) return address;
  const std::string_view digits = port.substr(1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), address.port);
  if (port.front() != ':' || error != std::errc() || end != digits.data() + digits.size() || address.port == 0) {
    return InvalidArgumentError(fmt::format("\"{}\": the port must be a number from 1 to 65535", text));
  }
  return address;
}

namespace {

Result<NameService> ResolveHa(const HadoopConfig& config, const std::string& service,
                              const std::vector<std::string>& ids) {
  NameService resolved;
  resolved.name = service;
  for (const std::string& id : ids) {
    const std::string key = fmt::format("dfs.namenode.rpc-address.{}.{}", service, id);
    const std::optional<std::string> address = config.Get(key);
    if (!address.has_value()) return InvalidArgumentError(key + " is not set");
    ASSIGN_OR_RETURN(NameNodeAddress parsed, ParseHostPort(*address, kDefaultRpcPort));
    parsed.id = id;
    resolved.namenodes.push_back(std::move(parsed));
  }
  return resolved;
}

}  // namespace

Result<NameService> ResolveNameService(const HadoopConfig& config, const std::string& authority) {
  std::string name = authority;
  if (name.empty()) {
    const std::string default_fs = config.GetOr("fs.defaultFS", "");
    constexpr std::string_view kScheme = "hdfs://";
    if (!default_fs.starts_with(kScheme)) {
      return InvalidArgumentError(fmt::format(
          "no NameNode is named: write hdfs://HOST:PORT/..., or set fs.defaultFS (it is \"{}\")", default_fs));
    }
    name = default_fs.substr(kScheme.size(), default_fs.find('/', kScheme.size()) - kScheme.size());
  }
  if (const std::vector<std::string> ids = config.GetList("dfs.ha.namenodes." + name); !ids.empty()) {
    return ResolveHa(config, name, ids);
  }
  const std::vector<std::string> services = config.GetList("dfs.nameservices");
  if (std::find(services.begin(), services.end(), name) != services.end()) {
    const std::string key = "dfs.namenode.rpc-address." + name;
    const std::optional<std::string> address = config.Get(key);
    if (!address.has_value()) return InvalidArgumentError(key + " is not set, nor dfs.ha.namenodes." + name);
    ASSIGN_OR_RETURN(NameNodeAddress parsed, ParseHostPort(*address, kDefaultRpcPort));
    return NameService{"", {std::move(parsed)}};
  }
  ASSIGN_OR_RETURN(NameNodeAddress parsed, ParseHostPort(name, kDefaultRpcPort));
  return NameService{"", {std::move(parsed)}};
}

}  // namespace paceline::hdfs
