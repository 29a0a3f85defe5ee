int a;  // BAD
