
/// y = a x + b, element by element.
///
/// x, y f32 [R, C] on one device, R and C >= 1; the last dimension is contiguous, the row strides and the base of x are
/// multiples of 16 bytes.
struct AffineArgs {
  Tensor x, y;
  float a = 1, b = 0;
};
