// What a user's program, or the system headers it includes, may have defined before it includes heed.
// No include guard on purpose: this file only ever hurts.

#define min(a, b) 0
#define max(a, b) 0
#define major(device) 0
#define minor(device) 0

#define small 0
#define near 0
#define far 0
#define interface 0
#define IN 0
#define OUT 0
#define ERROR 0
#define OPTIONAL 0

#define A 0
#define B 0
#define C 0
#define D 0
#define E 0
#define F 0
#define G 0
#define H 0
#define I 0
#define J 0
#define K 0
#define L 0
#define M 0
#define N 0
#define O 0
#define P 0
#define Q 0
#define R 0
#define S 0
#define T 0
#define U 0
#define V 0
#define W 0
#define X 0
#define Y 0
#define Z 0
