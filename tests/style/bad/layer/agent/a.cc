#include "agent/b.h"
#include "lib/base/status.h"
#include "lib/fusefs/session.h"  // BAD
#include "operator/plan.h"       // BAD
#include "status.h"              // BAD
// #include "operator/plan.h"
