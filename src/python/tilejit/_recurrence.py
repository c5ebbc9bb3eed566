"""Recurrences over tokens: the calls of Python, and how their arguments become structures of C; see _ops.py."""
from __future__ import annotations

from . import _c
from ._calls import Call, one_of, runtime_of, shape_of
from ._library import flag, number, real
from ._ready import plain, short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

    from ._runtime import Runtime
    from ._types import StreamLike, SupportsDLPack, Tensor


def _gated_delta_rule(q, k, v, *, gate=None, beta=None, gate_form="log", a_log=None, dt_bias=None, beta_raw=False, delta=True, normalise=False,
                      scale=None, initial_state=None, final_state=None, token_states=None, read_slots=None, write_slots=None, cu_seqlens=None,
                      state_transposed=False, out=None, initial_scales=None, final_scales=None, token_scales=None, token_every=1, negligible=0.0,
                      max_sms=0, stream=None, asks=False):
    args = _c.GatedDeltaRuleArgs(gate_form=one_of("gate_form", gate_form, _c.GATE_FORMS), beta_raw=flag(beta_raw, "beta_raw"),
                                 without_delta=not flag(delta, "delta"), normalise=flag(normalise, "normalise"),
                                 state_transposed=flag(state_transposed, "state_transposed"),
                                 token_every=number(token_every, "token_every", 1, 2**30), negligible=real(negligible, "negligible"),
                                 max_sms=number(max_sms, "max_sms", -2**31, 2**31 - 1))
    call = Call("gated_delta_rule", args, stream, asks)
    q, k, v = call.tensor("q", q), call.tensor("k", k), call.tensor("v", v)
    options = {name: call.tensor(name, x, True) for name, x in (
        ("gate", gate), ("a_log", a_log), ("dt_bias", dt_bias), ("beta", beta), ("initial_state", initial_state), ("read_slots", read_slots),
        ("write_slots", write_slots), ("cu_seqlens", cu_seqlens), ("initial_scales", initial_scales))}
    of_q, of_v = shape_of(q, 3, 4), shape_of(v, 3, 4)
    o = call.result("out", out, q, (*of_q[:-2], max(of_q[-2], of_v[-2]), of_v[-1]), q.dtype)
    for name, given in (("final_state", final_state), ("token_states", token_states), ("final_scales", final_scales),
                        ("token_scales", token_scales)):
        if given is not None:
            options[name] = call.result(name, given, q, (), q.dtype)
    call.put(q=q, k=k, v=v, o=o, **options)
    call.scale(scale)
    return call


def gated_delta_rule(q: Tensor, k: Tensor, v: Tensor, *, gate: Optional[SupportsDLPack] = None, beta: Optional[SupportsDLPack] = None,
                     gate_form: str = "log", a_log: Optional[SupportsDLPack] = None, dt_bias: Optional[SupportsDLPack] = None,
                     beta_raw: bool = False, delta: bool = True, normalise: bool = False, scale: Optional[float] = None,
                     initial_state: Optional[SupportsDLPack] = None, final_state: Optional[SupportsDLPack] = None,
                     token_states: Optional[SupportsDLPack] = None, read_slots: Optional[SupportsDLPack] = None,
                     write_slots: Optional[SupportsDLPack] = None, cu_seqlens: Optional[SupportsDLPack] = None, state_transposed: bool = False,
                     initial_scales: Optional[SupportsDLPack] = None, final_scales: Optional[SupportsDLPack] = None,
                     token_scales: Optional[SupportsDLPack] = None, token_every: int = 1, negligible: float = 0.0,
                     out: Optional[Tensor] = None, max_sms: int = 0, stream: Optional[StreamLike] = None, runtime: Optional[Runtime] = None) -> Tensor:
    """The gated delta rule, token after token: S' = decay S; S = S' + beta (v - S' k) k^T; o = scale * S q. Sums and S are f32.

    q [T, Hq, K], k [T, Hk, K], v [T, Hv, V], f16 or bf16; K = V, 64 or 128; all with a leading B for B sequences. cu_seqlens i32 [N + 1]: sequences
    of any lengths, without B. gate [.., T, H], or [.., T, H, K] for each key channel; beta [.., T, H]; f32 or q's type. H, the heads of o, is a
    multiple of Hq, Hk and Hv, by default the larger of Hq and Hv. gate_form: "log", the decay is exp(gate); "exp", it is the gate; "raw", its
    logarithm is -exp(a_log) * softplus(gate + dt_bias), a_log f32 [H], dt_bias [H], or [H, K] with such a gate. Without a gate the decay is 1,
    without beta that is 1; beta_raw: it is 1 / (1 + exp(-beta)). delta=False: what is added is beta v k^T. normalise: q and k are divided by
    sqrt(their sum of squares + 1e-6). scale: K**-0.5 where it is None.
    States f32, bf16, f16 or e4m3 [slots, H, V, K], with state_transposed [slots, H, K, V]. Sequence n begins with slot read_slots[n] of initial_state
    (zeros without), and leaves its state at slot write_slots[n] of final_state, which may be initial_state. Without these lists, i32 [N], the slot is n;
    at -1 zeros are read and nothing is written. token_states [N, L, H, V, K] takes the state after each of the first L tokens, or
    after every token_every of them; chunks serve multiples of 64.
    States of e4m3 count times scales f32, one for each row of V: initial_scales and final_scales [slots, H, V], token_scales [N, L, H, V]. The scale of a
    row that is written is its largest magnitude / 448. Final scales are initial_scales where final_state is initial_state.
    negligible, above 0 and below 1, makes long sequences approximate where that is faster, with a gate for each head: segments of a sequence begin from
    zeros, so many chunks ahead that decays leave at most this share of the state before. 0: exact.
    Returns o [.., T, H, V], made by q's framework, or `out`. max_sms: as fmha. Raises tilejit.Error.

    >>> import numpy, tilejit
    >>> q = numpy.ones((1, 3, 1, 64), numpy.float16)
    >>> tilejit.gated_delta_rule(q, q, q, delta=False, scale=1 / 64)[0, :, 0, 0].tolist()
    [1.0, 2.0, 3.0]
    """
    given = (q, k, v, gate, a_log, dt_bias, beta, initial_state, read_slots, write_slots, cu_seqlens, initial_scales, out, final_state, token_states,
             final_scales, token_scales)
    key = (tuple(map(type, given)), gate_form, plain(beta_raw), plain(delta), plain(normalise), plain(scale), plain(state_transposed),
           plain(token_every), plain(negligible), max_sms)
    if out is None and (final_state is not None or token_states is not None):
        key = None  # the short way makes all results or none
    done = short(runtime, key, stream, tuple([x for x in given if x is not None]), out) if key is not None else None
    if done is not None:
        return done
    call = _gated_delta_rule(q, k, v, gate=gate, beta=beta, gate_form=gate_form, a_log=a_log, dt_bias=dt_bias, beta_raw=beta_raw, delta=delta,
                             normalise=normalise, scale=scale, initial_state=initial_state, final_state=final_state, token_states=token_states,
                             read_slots=read_slots, write_slots=write_slots, cu_seqlens=cu_seqlens, state_transposed=state_transposed, out=out,
                             initial_scales=initial_scales, final_scales=final_scales, token_scales=token_scales, token_every=token_every,
                             negligible=negligible, max_sms=max_sms, stream=stream)
    return call.run(runtime_of(runtime), key)[0]
