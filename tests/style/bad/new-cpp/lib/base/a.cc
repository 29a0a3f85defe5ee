#include <algorithm>
#include <ranges>  // BAD
#include <format>  // BAD
