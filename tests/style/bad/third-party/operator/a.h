// A header.
#pragma once
#include <nlohmann/json.hpp>  // BAD
#include <nlohmann/json_fwd.hpp>
#include <spdlog/spdlog.h>  // BAD
