#include "lib/base/status.h"  // BAD
#include "lib/ring/ring.h"
