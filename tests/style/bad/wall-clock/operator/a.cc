auto a = std::chrono::system_clock::now();  // BAD
auto b = steady_clock::now();  // BAD
auto c = time(nullptr);        // BAD
auto d = clock.Now();          // not steady_clock::now()
auto e = Describe("system_clock::now");
auto f = start_time(0);
