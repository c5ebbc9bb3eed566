
/* y = a x + b, as tj::AffineArgs (affine.hpp) says. */
typedef struct tj_affine_args {
  uint64_t size;
  const tj_tensor* x;
  const tj_tensor* y; /* written */
  float a, b;
} tj_affine_args;
