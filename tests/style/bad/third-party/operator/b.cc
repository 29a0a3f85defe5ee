#include <boost/asio.hpp>  // BAD
#include <cpprest/http_client.h>  // BAD
#include <gtest/gtest.h>  // BAD
#include <nlohmann/json.hpp>
#include <openssl/ssl.h>  // BAD
