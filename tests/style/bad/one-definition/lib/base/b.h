// Another type of that name.
#pragma once

namespace paceline {

struct Same {  // BAD
  double two = 0;
};

}  // namespace paceline
