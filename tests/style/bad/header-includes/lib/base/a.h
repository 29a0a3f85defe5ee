// A header.
#pragma once
#include "lib/base/h0.h"
#include "lib/base/h1.h"
#include "lib/base/h2.h"
#include "lib/base/h3.h"
#include "lib/base/h4.h"
#include "lib/base/h5.h"
#include "lib/base/h6.h"
#include "lib/base/h7.h"
#include "lib/base/h8.h"
#include "lib/base/h9.h"
#include "lib/base/h10.h"
#include "lib/base/h11.h"
#include <vector>  // BAD
