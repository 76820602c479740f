#include "qurt.h"
