int b;  // BAD
