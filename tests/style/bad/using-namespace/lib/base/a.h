// A header.
#pragma once
using namespace std;  // BAD
using std::string;
