__global__
void saxpy(int n, float a, float *x, float *y)
{}
int main() { saxpy<<<1, 2>>>(1, 2.f, x, y); }
