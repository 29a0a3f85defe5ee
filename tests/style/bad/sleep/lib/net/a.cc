std::this_thread::sleep_for(10s);  // BAD
::usleep(5);                       // BAD
sleep(1);                          // BAD
clock.SleepUntil(next, stop);
