#include <vector>  // BAD
int a;
