// A header.  BAD
#pragma once
