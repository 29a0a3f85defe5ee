#include "lib/base/config_file.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "lib/base/log_format.h"
#include "lib/base/yaml_documents.h"

namespace paceline {

namespace {

class FileReader {
 public:
  FileReader(std::string_view name, std::deque<ConfigField>& fields, std::vector<std::string>& mistakes)
      : name_(name), fields_(fields), mistakes_(mistakes) {}

  // `prefix` is "" at the top and "section." inside one.
  void ReadSection(const std::string& prefix, const YAML::Node& section) {
    std::set<std::string> seen;
    for (const auto& entry : section) {
      if (!entry.first.IsScalar()) {
        Mistake(entry.first, "keys must be plain words");
        continue;
      }
      const std::string key = prefix + entry.first.Scalar();
      if (!seen.insert(key).second) {
        Mistake(entry.first, fmt::format("the key \"{}\" is there twice; remove one", key));
      } else if (ConfigField* field = FindField(key)) {
        ReadField(*field, entry.first, entry.second);
      } else if (IsSection(key)) {
        ReadSubsection(key, entry.first, entry.second);
      } else {
        ReportUnknown(key, entry.first);
      }
    }
  }

  // yaml-cpp counts lines from zero.
  void Mistake(const YAML::Node& at, const std::string& what) { Mistake(at.Mark(), what); }
  void Mistake(const YAML::Mark& mark, const std::string& what) {
    mistakes_.push_back(mark.is_null() ? fmt::format("{}: {}", name_, what)
                                       : fmt::format("{}:{}: {}", name_, mark.line + 1, what));
  }

 private:
  ConfigField* FindField(const std::string& key) {
    const auto found = std::find_if(fields_.begin(), fields_.end(), [&](const auto& f) { return f.key() == key; });
    return found == fields_.end() ? nullptr : &*found;
  }

  bool IsSection(const std::string& key) const {
    return std::any_of(fields_.begin(), fields_.end(),
                       [&](const ConfigField& field) { return field.key().rfind(key + ".", 0) == 0; });
  }

  void ReadSubsection(const std::string& key, const YAML::Node& at, const YAML::Node& value) {
    if (value.IsMap()) {
      ReadSection(key + ".", value);
    } else if (!value.IsNull()) {  // a section whose keys are all commented out is left as null
      Mistake(at, fmt::format("\"{}\" is a section; write its keys below it, indented", key));
    }
  }

  void ReadField(ConfigField& field, const YAML::Node& at, const YAML::Node& value) {
    std::vector<std::string> values;
    if (value.IsNull()) {
      return Mistake(at, fmt::format("\"{}\" has no value; remove the key to use the default", field.key()));
    }
    if (field.is_list()) {
      if (!value.IsSequence()) return Mistake(at, fmt::format("\"{}\" is a list; write [a, b]", field.key()));
      for (const YAML::Node& item : value) {
        if (!item.IsScalar()) {
          return Mistake(at, fmt::format("\"{}\" is a list of plain values; this one has a nested value", field.key()));
        }
        values.push_back(item.Scalar());
      }
    } else {
      if (!value.IsScalar()) {
        return Mistake(at, fmt::format("\"{}\" takes one value, not a list or a section", field.key()));
      }
      values.push_back(value.Scalar());
    }
    const Status status = field.Set(values, ConfigField::Source::kFile);
    if (!status.ok()) Mistake(at, field.key() + ": " + status.message());
  }

  void ReportUnknown(const std::string& key, const YAML::Node& at) {
    std::vector<std::string> known;
    for (const ConfigField& field : fields_) {
      known.push_back(field.key());
      for (size_t dot = 0; (dot = field.key().find('.', dot)) != std::string::npos; ++dot) {
        known.push_back(field.key().substr(0, dot));
      }
    }
    const std::string nearest = NearestName(key, known);
    Mistake(at, nearest.empty() ? fmt::format("unknown key \"{}\"; --print-default-config shows all keys", key)
                                : fmt::format("unknown key \"{}\"; did you mean \"{}\"?", key, nearest));
  }

  std::string_view name_;
  std::deque<ConfigField>& fields_;
  std::vector<std::string>& mistakes_;
};

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (std::tolower(a[i]) == std::tolower(b[j]) ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row[b.size()];
}

// Sections are printed as they first appear, with all their fields together; this gives the order of the fields.
void CollectInOrder(const std::deque<ConfigField>& fields, const std::string& prefix,
                    std::vector<const ConfigField*>& ordered) {
  std::set<std::string> done;
  for (const ConfigField& field : fields) {
    if (field.key().rfind(prefix, 0) != 0) continue;
    const size_t dot = field.key().find('.', prefix.size());
    if (dot == std::string::npos) {
      ordered.push_back(&field);
    } else if (const std::string section = field.key().substr(0, dot + 1); done.insert(section).second) {
      CollectInOrder(fields, section, ordered);
    }
  }
}

std::string YamlValue(const ConfigField& field) {
  const std::vector<std::string> values = field.Get();
  if (field.is_secret()) return field.is_list() ? "[]" : "\"\"";
  if (field.is_list()) {
    std::string list;
    for (const std::string& value : values) list += (list.empty() ? "" : ", ") + QuoteJson(value);
    return "[" + list + "]";
  }
  const bool is_text = field.type_name() == std::string_view("TEXT");
  return is_text ? QuoteJson(values[0]) : values[0];
}

}  // namespace

void ApplyConfigYaml(std::string_view name, const std::string& text, std::deque<ConfigField>& fields,
                     std::vector<std::string>& mistakes) {
  FileReader reader(name, fields, mistakes);
  try {
    if (const std::optional<int> line = SecondYamlDocument(text)) {
      YAML::Mark mark;
      mark.line = *line;
      return reader.Mistake(mark, "a second document begins here; a configuration file holds one");
    }
    const YAML::Node document = YAML::Load(text);
    if (!document.IsDefined() || document.IsNull()) return;
    if (!document.IsMap()) return reader.Mistake(document, "expected \"key: value\" lines");
    reader.ReadSection("", document);
  } catch (const YAML::Exception& error) {
    reader.Mistake(error.mark, "not valid YAML: " + error.msg);
  }
}

std::string PrintConfigYaml(std::string_view head, const std::deque<ConfigField>& fields) {
  constexpr size_t kWidth = 100;
  std::vector<const ConfigField*> ordered;
  CollectInOrder(fields, "", ordered);
  std::string out = WrapText(head, "# ", kWidth);
  std::vector<std::string> open;  // sections that the previous field was in
  for (const ConfigField* field : ordered) {
    std::vector<std::string> sections;
    size_t start = 0;
    for (size_t dot = 0; (dot = field->key().find('.', start)) != std::string::npos; start = dot + 1) {
      sections.push_back(field->key().substr(start, dot - start));
    }
    size_t shared = 0;
    while (shared < open.size() && shared < sections.size() && open[shared] == sections[shared]) ++shared;
    out += '\n';
    for (size_t depth = shared; depth < sections.size(); ++depth) {
      out += std::string(2 * depth, ' ') + sections[depth] + ":\n";
    }
    open = sections;
    const std::string indent(2 * sections.size(), ' ');
    std::string doc = field->doc();
    if (!field->words().empty()) doc += fmt::format(" One of: {}.", fmt::join(field->words(), ", "));
    out += WrapText(doc, indent + "# ", kWidth);
    // A secret has no place in a printed file: the line is there as a comment only.
    out += indent + (field->is_secret() ? "# " : "") + field->key().substr(start) + ": " + YamlValue(*field) + "\n";
  }
  return out;
}

std::string NearestName(std::string_view text, const std::vector<std::string>& candidates) {
  std::string nearest;
  size_t best = 2 + text.size() / 4;  // farther than that is another word, not a slip
  for (const std::string& candidate : candidates) {
    const std::string_view last = std::string_view(candidate).substr(candidate.rfind('.') + 1);
    // The right name in the wrong section is near as well.
    const std::string_view text_last = text.substr(text.rfind('.') + 1);
    const size_t distance = std::min(EditDistance(text, candidate), EditDistance(text_last, last) + 1);
    if (distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string WrapText(std::string_view text, std::string_view indent, size_t width) {
  std::string out;
  std::string line;
  const auto flush = [&] {
    if (!line.empty()) out += std::string(indent) + line + "\n";
    line.clear();
  };
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of(" \n"), text.size());
    const std::string_view word = text.substr(0, end);
    if (!line.empty() && indent.size() + line.size() + 1 + word.size() > width) flush();
    if (!word.empty()) {
      if (!line.empty()) line += ' ';
      line += word;
    }
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  flush();
  return out;
}

}  // namespace paceline
