std::thread(F).detach();  // BAD
