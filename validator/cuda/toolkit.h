/*
 * toolkit.h - what we use of the CUDA runtime, cuBLAS, NCCL and NVML.
 *
 * With the toolkit's headers (MQ_CUDA_HEADERS) the declarations are theirs and every use is
 * type-checked against them; without, the few that are needed are declared here with the same
 * names, so the executor builds anywhere and opens the libraries at run time all the same. The
 * values are part of NVIDIA's ABI.
 */
#ifndef MQ_VALIDATOR_TOOLKIT_H
#define MQ_VALIDATOR_TOOLKIT_H

#include <stddef.h>
#include <stdint.h>

#ifdef MQ_CUDA_HEADERS
#include <cuda_runtime_api.h>
#include <cublas_v2.h>
#else
typedef int cudaError_t;
typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
enum cudaMemcpyKind {
	cudaMemcpyHostToHost,
	cudaMemcpyHostToDevice,
	cudaMemcpyDeviceToHost,
	cudaMemcpyDeviceToDevice,
	cudaMemcpyDefault
};
enum {
	cudaSuccess = 0,
	cudaErrorMemoryAllocation = 2,
	cudaErrorStubLibrary = 34,
	cudaErrorInsufficientDriver = 35,
	cudaErrorNoDevice = 100,
	cudaErrorNotReady = 600
};
enum { cudaStreamNonBlocking = 1 };
cudaError_t cudaRuntimeGetVersion(int *version);
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaSetDevice(int device);
enum cudaDeviceAttr {
	cudaDevAttrMultiProcessorCount = 16,
	cudaDevAttrComputeCapabilityMajor = 75,
	cudaDevAttrComputeCapabilityMinor = 76
};
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device);
cudaError_t cudaDeviceGetPCIBusId(char *text, int size, int device);
cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer);
const char *cudaGetErrorString(cudaError_t error);
cudaError_t cudaMalloc(void **pointer, size_t size);
cudaError_t cudaFree(void *pointer);
cudaError_t cudaMallocHost(void **pointer, size_t size);
cudaError_t cudaFreeHost(void *pointer);
enum { cudaHostRegisterDefault = 0 };
cudaError_t cudaHostRegister(void *pointer, size_t size, unsigned int flags);
cudaError_t cudaHostUnregister(void *pointer);
cudaError_t cudaMemcpy(void *to, const void *from, size_t size, enum cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, enum cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemset(void *pointer, int value, size_t size);
cudaError_t cudaMemGetInfo(size_t *available, size_t *total);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags);
cudaError_t cudaEventCreate(cudaEvent_t *event);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end);
typedef void (*cudaHostFn_t)(void *data);
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data);

typedef int cublasStatus_t;
typedef struct cublasContext *cublasHandle_t;
typedef enum { CUBLAS_OP_N = 0 } cublasOperation_t;
typedef enum { CUDA_R_32F = 0, CUDA_R_64F = 1, CUDA_R_16F = 2, CUDA_R_16BF = 14 } cudaDataType;
typedef enum {
	CUBLAS_COMPUTE_32F = 68,
	CUBLAS_COMPUTE_64F = 70,
	CUBLAS_COMPUTE_32F_FAST_TF32 = 77
} cublasComputeType_t;
typedef enum { CUBLAS_GEMM_DEFAULT = -1 } cublasGemmAlgo_t;
cublasStatus_t cublasCreate_v2(cublasHandle_t *handle);
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle);
cublasStatus_t cublasGetVersion_v2(cublasHandle_t handle, int *version);
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream);
cublasStatus_t cublasSaxpy_v2(cublasHandle_t handle, int n, const float *alpha, const float *x,
                              int incx, float *y, int incy);
cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb,
                            int m, int n, int k, const void *alpha, const void *a,
                            cudaDataType ta_type, int lda, const void *b, cudaDataType tb_type,
                            int ldb, const void *beta, void *c, cudaDataType tc_type, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t algo);
cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t ta,
                                          cublasOperation_t tb, int m, int n, int k,
                                          const void *alpha, const void *a, cudaDataType ta_type,
                                          int lda, long long int stride_a, const void *b,
                                          cudaDataType tb_type, int ldb, long long int stride_b,
                                          const void *beta, void *c, cudaDataType tc_type, int ldc,
                                          long long int stride_c, int count,
                                          cublasComputeType_t compute, cublasGemmAlgo_t algo);
#endif

#if defined(MQ_CUDA_HEADERS) && __has_include(<nccl.h>)
#include <nccl.h>
#else
typedef int ncclResult_t;
typedef struct ncclComm *ncclComm_t;
typedef struct {
	char internal[128];
} ncclUniqueId;
typedef enum {
	ncclFloat16 = 6,
	ncclFloat32 = 7,
	ncclFloat64 = 8,
	ncclBfloat16 = 9,
	ncclInt8 = 0
} ncclDataType_t;
typedef enum { ncclSum = 0 } ncclRedOp_t;
enum { ncclSuccess = 0, ncclInProgress = 7 };
ncclResult_t ncclGetVersion(int *version);
ncclResult_t ncclGetUniqueId(ncclUniqueId *id);
ncclResult_t ncclCommInitRank(ncclComm_t *comm, int n, ncclUniqueId id, int rank);
ncclResult_t ncclCommFinalize(ncclComm_t comm);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error);
const char *ncclGetErrorString(ncclResult_t result);
const char *ncclGetLastError(ncclComm_t comm);
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
ncclResult_t ncclSend(const void *data, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclRecv(void *data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream);
ncclResult_t ncclAllReduce(const void *in, void *out, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclAllGather(const void *in, void *out, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclReduceScatter(const void *in, void *out, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclBroadcast(const void *in, void *out, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclReduce(const void *in, void *out, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream);
#endif

/* Functions that must be there, per library. */
#define MQ_CUDART_FUNCTIONS(X)                                                                     \
	X(cudaRuntimeGetVersion)                                                                   \
	X(cudaDriverGetVersion) X(cudaGetDeviceCount) X(cudaSetDevice) X(cudaDeviceGetAttribute)   \
	        X(cudaDeviceGetPCIBusId) X(cudaDeviceCanAccessPeer)                                \
	        X(cudaGetErrorString) X(cudaMalloc) X(cudaFree) X(cudaMallocHost) X(cudaFreeHost)  \
	                X(cudaHostRegister) X(cudaHostUnregister)                                  \
	                X(cudaMemcpy) X(cudaMemcpyAsync) X(cudaMemset) X(cudaMemGetInfo)           \
	                        X(cudaStreamCreateWithFlags) X(cudaStreamDestroy)                  \
	                                X(cudaStreamQuery) X(cudaStreamWaitEvent)                  \
	                                        X(cudaEventCreate) X(cudaEventDestroy)             \
	                                                X(cudaEventRecord) X(cudaEventQuery)       \
	                                                        X(cudaEventElapsedTime)    \
	                X(cudaLaunchHostFunc)
#define MQ_CUBLAS_FUNCTIONS(X)                                                                     \
	X(cublasCreate_v2)                                                                         \
	X(cublasDestroy_v2) X(cublasGetVersion_v2) X(cublasSetStream_v2) X(cublasSaxpy_v2)         \
	        X(cublasGemmEx) X(cublasGemmStridedBatchedEx)
#define MQ_NCCL_FUNCTIONS(X)                                                                       \
	X(ncclGetVersion)                                                                          \
	X(ncclGetUniqueId) X(ncclCommInitRank) X(ncclCommFinalize) X(ncclCommDestroy)        \
	        X(ncclCommAbort) X(ncclCommGetAsyncError) X(ncclGetErrorString)                    \
	                X(ncclGetLastError) X(ncclGroupStart) X(ncclGroupEnd) X(ncclSend)          \
	                        X(ncclRecv) X(ncclAllReduce) X(ncclAllGather) X(ncclReduceScatter) \
	                                X(ncclBroadcast) X(ncclReduce)

/* NVML's nvmlPciInfo_t. */
struct mq_nvml_pci {
	char busIdLegacy[16];
	unsigned int domain, bus, device, pciDeviceId, pciSubSystemId;
	char busId[32];
};
enum { MQ_NVLINK_SWITCH = 2 }; /* NVML's nvmlIntNvLinkDeviceType_t */

#define MQ_FUNCTION_POINTER(name) __typeof__(name) *name;
struct mq_toolkit {
	MQ_CUDART_FUNCTIONS(MQ_FUNCTION_POINTER)
	MQ_CUBLAS_FUNCTIONS(MQ_FUNCTION_POINTER)
	MQ_NCCL_FUNCTIONS(MQ_FUNCTION_POINTER)
	/* NVML is optional: NULL where the library is missing. */
	int (*nvmlInit_v2)(void);
	int (*nvmlDeviceGetHandleByIndex_v2)(unsigned int index, void **device);
	/* Topology: each may be NULL. */
	int (*nvmlDeviceGetHandleByPciBusId_v2)(const char *busid, void **device);
	int (*nvmlDeviceGetMaxPcieLinkGeneration)(void *device, unsigned int *generation);
	int (*nvmlDeviceGetCurrPcieLinkWidth)(void *device, unsigned int *width);
	int (*nvmlDeviceGetTopologyCommonAncestor)(void *a, void *b, int *level);
	int (*nvmlDeviceGetNvLinkState)(void *device, unsigned int link, int *active);
	int (*nvmlDeviceGetNvLinkRemotePciInfo_v2)(void *device, unsigned int link,
	                                           struct mq_nvml_pci *pci);
	int (*nvmlDeviceGetNvLinkRemoteDeviceType)(void *device, unsigned int link, int *type);
	int (*nvmlDeviceGetMigMode)(void *device, unsigned int *current, unsigned int *pending);
	int (*nvmlDeviceGetName)(void *device, char *name, unsigned int length);
	int (*nvmlDeviceGetClockInfo)(void *device, int type, unsigned int *MHz);
	int (*nvmlDeviceGetTemperature)(void *device, int sensor, unsigned int *celsius);
	int (*nvmlDeviceGetPowerUsage)(void *device, unsigned int *milliwatts);
	int (*nvmlDeviceGetCurrentClocksThrottleReasons)(void *device, unsigned long long *reasons);
};

#endif
