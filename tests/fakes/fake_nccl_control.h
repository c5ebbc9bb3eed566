/* Steers the fake NCCL. */
#ifndef TJ_FAKE_NCCL_CONTROL_H
#define TJ_FAKE_NCCL_CONTROL_H
#ifdef __cplusplus
extern "C" {
#endif
void fake_nccl_reset(void);
/* The call of this name fails from now on with ncclSystemError; null: none does. */
void fake_nccl_fail(const char* call);
/* The next call of this name fails so, and none after it; null: none does. */
void fake_nccl_fail_once(const char* call);
/* Ranks that registered a window and met no other one within seconds; their call failed. */
int fake_nccl_alone(void);
/* What ncclCommGetAsyncError tells; 0: no error. */
void fake_nccl_set_async(int error);
void fake_nccl_set_version(int version);
/* So many next looks at a communicator's state find a call in progress. */
void fake_nccl_set_busy(int times);
/* Communicators that were aborted. */
int fake_nccl_aborts(void);
/* Called when a communicator is aborted; null: nobody is. */
void fake_nccl_on_abort(void (*hook)(void* user), void* user);
/* Communicators that are not destroyed, and groups of calls that are not closed. */
int fake_nccl_comms(void);
int fake_nccl_open_groups(void);
/* Windows that are not given back. Versions before 22902 have none. */
int fake_nccl_windows(void);
#ifdef __cplusplus
}
#endif
#endif
