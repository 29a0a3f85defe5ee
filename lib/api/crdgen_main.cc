// paceline-crdgen: writes what is generated from the field descriptions.
//   paceline-crdgen chart DIR      one template of the chart per kind into DIR
//   paceline-crdgen docs FILE      docs/api.md
//   paceline-crdgen print [KIND]   plain CRDs as YAML on stdout, for kubectl apply
#include <fstream>
#include <iostream>
#include <string>

#include "lib/api/crd.h"

namespace {

using namespace paceline::api;

int WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (file.good()) return 0;
  std::cerr << "paceline-crdgen: cannot write " << path << "\n";
  return 1;
}

int WriteChart(const std::string& folder) {
  for (const KindInfo& kind : kAllKinds) {
    if (WriteFile(folder + "/" + std::string(kind.plural) + ".yaml", CrdTemplate(kind)) != 0) return 1;
  }
  return 0;
}

int Print(const std::string& wanted) {
  bool is_known = wanted.empty();
  for (const KindInfo& kind : kAllKinds) {
    if (!wanted.empty() && kind.kind != wanted) continue;
    is_known = true;
    std::cout << "---\n" << ToYaml(MakeCrd(kind));
  }
  if (!is_known) std::cerr << "paceline-crdgen: no kind " << wanted << "\n";
  return is_known ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string command = argc > 1 ? argv[1] : "";
  const std::string argument = argc > 2 ? argv[2] : "";
  if (command == "chart" && argc == 3) return WriteChart(argument);
  if (command == "docs" && argc == 3) return WriteFile(argument, ApiReference());
  if (command == "print" && argc <= 3) return Print(argument);
  std::cerr << "usage: paceline-crdgen chart DIR | docs FILE | print [KIND]\n";
  return 2;
}
