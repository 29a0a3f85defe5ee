#include "lib/net/http.h"  // BAD
