int timeout = 5;               // BAD
double retry_interval_ = 0.5;  // BAD
Duration a = Duration(5);      // BAD
clock.SleepFor(5, stop);       // BAD
void Wait(int64_t grace);      // BAD
int timeout_seconds = 5;
Duration b = std::chrono::seconds(5);
Duration zero = Duration(0);
int intervals = 3;
