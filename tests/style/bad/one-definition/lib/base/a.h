// A type.
#pragma once

namespace paceline {

struct Same {
  int one = 0;
};

}  // namespace paceline
