"""Two small GPU kernels, as text that the driver itself compiles: no compiler is needed where they run.

Rule of this module: only what every GPU since Pascal can do (PTX 6.0 for sm_60, which newer drivers compile
for newer GPUs).
"""

from __future__ import annotations

#: ``work``: multiplies and adds ``rounds`` times in every thread. ``multiprocessors``: every block marks the
#: multiprocessor that it runs on, and lingers so that the blocks spread over all that there are.
PTX = b"""
.version 6.0
.target sm_60
.address_size 64

.visible .entry work(.param .u64 out, .param .u32 rounds)
{
    .reg .pred %p<2>;
    .reg .b32 %r<4>;
    .reg .f32 %f<4>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [rounds];
    cvta.to.global.u64 %rd1, %rd1;
    mov.u32 %r2, %tid.x;
    cvt.rn.f32.u32 %f1, %r2;
    mov.f32 %f2, 0f3F7FFFFF;
    mov.f32 %f3, 0f3F800000;
    mov.u32 %r3, 0;
again:
    fma.rn.f32 %f1, %f1, %f2, %f3;
    fma.rn.f32 %f1, %f1, %f2, %f3;
    fma.rn.f32 %f1, %f1, %f2, %f3;
    fma.rn.f32 %f1, %f1, %f2, %f3;
    add.u32 %r3, %r3, 1;
    setp.lt.u32 %p1, %r3, %r1;
    @%p1 bra again;
    setp.eq.f32 %p1, %f1, 0fC2F6E979;
    @!%p1 bra done;
    st.global.f32 [%rd1], %f1;
done:
    ret;
}

.visible .entry multiprocessors(.param .u64 out)
{
    .reg .pred %p<2>;
    .reg .b32 %r<3>;
    .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [out];
    cvta.to.global.u64 %rd1, %rd1;
    mov.u32 %r1, %smid;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd1, %rd1, %rd2;
    mov.u32 %r2, 1;
    st.global.u32 [%rd1], %r2;
    mov.u64 %rd3, %clock64;
linger:
    mov.u64 %rd4, %clock64;
    sub.s64 %rd5, %rd4, %rd3;
    setp.lt.s64 %p1, %rd5, 200000;
    @%p1 bra linger;
    ret;
}
"""
