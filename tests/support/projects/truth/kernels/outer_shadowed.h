#include <shadowed_too.h>
