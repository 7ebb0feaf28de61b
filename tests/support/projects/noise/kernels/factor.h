#define FACTOR 9
