const char* home = std::getenv("HOME");  // BAD
