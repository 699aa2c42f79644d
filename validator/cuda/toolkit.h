/* toolkit.h - what we use of the CUDA runtime and driver, cuBLAS and cublasLt, cuDNN, NVRTC, NCCL and NVML.
 *
 * With the toolkit's headers (MQ_CUDA_HEADERS) the declarations are theirs and every use is type-checked against them;
 * without, the few that are needed are declared here with the same names, so the executor builds anywhere and opens the
 * libraries at run time all the same. The values are part of NVIDIA's ABI. SPDX-License-Identifier: Apache-2.0 */
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
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, enum cudaMemcpyKind kind, cudaStream_t stream);
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
typedef enum { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 } cublasOperation_t;
typedef enum {
	CUDA_R_32F = 0,
	CUDA_R_64F = 1,
	CUDA_R_16F = 2,
	CUDA_R_16BF = 14,
	CUDA_R_8F_E4M3 = 28,
	CUDA_R_8F_E5M2 = 29
} cudaDataType;
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
cublasStatus_t cublasSaxpy_v2(cublasHandle_t handle, int n, const float *alpha, const float *x, int incx, float *y,
			      int incy);
cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,
			    const void *alpha, const void *a, cudaDataType ta_type, int lda, const void *b,
			    cudaDataType tb_type, int ldb, const void *beta, void *c, cudaDataType tc_type, int ldc,
			    cublasComputeType_t compute, cublasGemmAlgo_t algo);
cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int m,
					  int n, int k, const void *alpha, const void *a, cudaDataType ta_type, int lda,
					  long long int stride_a, const void *b, cudaDataType tb_type, int ldb,
					  long long int stride_b, const void *beta, void *c, cudaDataType tc_type,
					  int ldc, long long int stride_c, int count, cublasComputeType_t compute,
					  cublasGemmAlgo_t algo);
#endif

#if defined(MQ_CUDA_HEADERS) && __has_include(<nccl.h>)
#include <nccl.h>
#else
typedef int ncclResult_t;
typedef struct ncclComm *ncclComm_t;
typedef struct {
	char internal[128];
} ncclUniqueId;
typedef enum { ncclFloat16 = 6, ncclFloat32 = 7, ncclFloat64 = 8, ncclBfloat16 = 9, ncclInt8 = 0 } ncclDataType_t;
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
ncclResult_t ncclSend(const void *data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
		      cudaStream_t stream);
ncclResult_t ncclRecv(void *data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclAllReduce(const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t op,
			   ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclAllGather(const void *in, void *out, size_t count, ncclDataType_t type, ncclComm_t comm,
			   cudaStream_t stream);
ncclResult_t ncclReduceScatter(const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t op,
			       ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclBroadcast(const void *in, void *out, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
			   cudaStream_t stream);
ncclResult_t ncclReduce(const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
			ncclComm_t comm, cudaStream_t stream);
#endif

/* Since CUDA 12.5, whose headers say the same. */
cublasStatus_t cublasGemmGroupedBatchedEx(cublasHandle_t handle, const cublasOperation_t ta[],
					  const cublasOperation_t tb[], const int m[], const int n[], const int k[],
					  const void *alpha, const void *const a[], cudaDataType ta_type,
					  const int lda[], const void *const b[], cudaDataType tb_type, const int ldb[],
					  const void *beta, void *const c[], cudaDataType tc_type, const int ldc[],
					  int groups, const int size[], cublasComputeType_t compute);

/* cublasLt, cuDNN, NVRTC and the driver: opened only by schedules that ask for them. */
#if defined(MQ_CUDA_HEADERS) && __has_include(<cublasLt.h>)
#include <cublasLt.h>
#else
typedef struct cublasLtContext *cublasLtHandle_t;
typedef struct cublasLtDesc *cublasLtMatmulDesc_t;
typedef struct cublasLtLayout *cublasLtMatrixLayout_t;
typedef struct cublasLtPreference *cublasLtMatmulPreference_t;
typedef struct {
	uint64_t data[8];
} cublasLtMatmulAlgo_t;
typedef struct {
	cublasLtMatmulAlgo_t algo;
	size_t workspaceSize;
	cublasStatus_t state;
	float wavesCount;
	int reserved[4];
} cublasLtMatmulHeuristicResult_t;
typedef enum {
	CUBLASLT_MATMUL_DESC_TRANSA = 3,
	CUBLASLT_MATMUL_DESC_TRANSB = 4,
	CUBLASLT_MATMUL_DESC_A_SCALE_POINTER = 17,
	CUBLASLT_MATMUL_DESC_B_SCALE_POINTER = 18,
	CUBLASLT_MATMUL_DESC_FAST_ACCUM = 25
} cublasLtMatmulDescAttributes_t;
typedef enum {
	CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 5,
	CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 6
} cublasLtMatrixLayoutAttribute_t;
typedef enum { CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1 } cublasLtMatmulPreferenceAttributes_t;
cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle);
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle);
size_t cublasLtGetVersion(void);
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute, cudaDataType scale);
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,
					      const void *value, size_t size);
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type, uint64_t rows,
					  uint64_t cols, int64_t ld);
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
						cublasLtMatrixLayoutAttribute_t attribute, const void *value,
						size_t size);
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference);
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference);
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
						    cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
						    size_t size);
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
					      cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
					      cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
					      cublasLtMatmulPreference_t preference, int asked,
					      cublasLtMatmulHeuristicResult_t *result, int *found);
cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,
			      cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout,
			      const void *beta, const void *c, cublasLtMatrixLayout_t c_layout, void *d,
			      cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algo, void *workspace,
			      size_t workspace_B, cudaStream_t stream);
#endif

#if defined(MQ_CUDA_HEADERS) && __has_include(<cudnn.h>)
#include <cudnn.h>
#else
typedef int cudnnStatus_t;
typedef struct cudnnContext *cudnnHandle_t;
typedef struct cudnnTensorStruct *cudnnTensorDescriptor_t;
typedef struct cudnnFilterStruct *cudnnFilterDescriptor_t;
typedef struct cudnnConvolutionStruct *cudnnConvolutionDescriptor_t;
typedef enum {
	CUDNN_DATA_FLOAT = 0,
	CUDNN_DATA_DOUBLE = 1,
	CUDNN_DATA_HALF = 2,
	CUDNN_DATA_INT32 = 4,
	CUDNN_DATA_BFLOAT16 = 9,
	CUDNN_DATA_BOOLEAN = 11
} cudnnDataType_t;
typedef enum { CUDNN_TENSOR_NCHW = 0, CUDNN_TENSOR_NHWC = 1 } cudnnTensorFormat_t;
typedef enum { CUDNN_CROSS_CORRELATION = 1 } cudnnConvolutionMode_t;
typedef enum { CUDNN_DEFAULT_MATH = 0, CUDNN_TENSOR_OP_MATH = 1, CUDNN_FMA_MATH = 3 } cudnnMathType_t;
typedef int cudnnConvolutionFwdAlgo_t, cudnnConvolutionBwdDataAlgo_t, cudnnConvolutionBwdFilterAlgo_t;
typedef struct {
	int algo;
	cudnnStatus_t status;
	float time;
	size_t memory;
	int determinism;
	cudnnMathType_t mathType;
	int reserved[3];
} cudnnConvolutionFwdAlgoPerf_t, cudnnConvolutionBwdDataAlgoPerf_t, cudnnConvolutionBwdFilterAlgoPerf_t;
size_t cudnnGetVersion(void);
const char *cudnnGetErrorString(cudnnStatus_t status);
cudnnStatus_t cudnnCreate(cudnnHandle_t *handle);
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle);
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream);
cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t *tensor);
cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t tensor, cudnnTensorFormat_t format,
					 cudnnDataType_t type, int n, int c, int h, int w);
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t *filter);
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filter, cudnnDataType_t type,
					 cudnnTensorFormat_t format, int k, int c, int h, int w);
cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t *conv);
cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t conv, int pad_h, int pad_w, int stride_h,
					      int stride_w, int dilation_h, int dilation_w, cudnnConvolutionMode_t mode,
					      cudnnDataType_t compute);
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t conv, int groups);
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t conv, cudnnMathType_t math);
cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t handle, cudnnTensorDescriptor_t x,
						     cudnnFilterDescriptor_t w, cudnnConvolutionDescriptor_t conv,
						     cudnnTensorDescriptor_t y, int asked, int *found,
						     cudnnConvolutionFwdAlgoPerf_t *result);
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t handle, cudnnFilterDescriptor_t w,
							  cudnnTensorDescriptor_t dy, cudnnConvolutionDescriptor_t conv,
							  cudnnTensorDescriptor_t dx, int asked, int *found,
							  cudnnConvolutionBwdDataAlgoPerf_t *result);
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnnHandle_t handle, cudnnTensorDescriptor_t x,
							    cudnnTensorDescriptor_t dy,
							    cudnnConvolutionDescriptor_t conv,
							    cudnnFilterDescriptor_t dw, int asked, int *found,
							    cudnnConvolutionBwdFilterAlgoPerf_t *result);
cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void *alpha, cudnnTensorDescriptor_t x_desc,
				      const void *x, cudnnFilterDescriptor_t w_desc, const void *w,
				      cudnnConvolutionDescriptor_t conv, cudnnConvolutionFwdAlgo_t algo,
				      void *workspace, size_t workspace_B, const void *beta,
				      cudnnTensorDescriptor_t y_desc, void *y);
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void *alpha, cudnnFilterDescriptor_t w_desc,
					   const void *w, cudnnTensorDescriptor_t dy_desc, const void *dy,
					   cudnnConvolutionDescriptor_t conv, cudnnConvolutionBwdDataAlgo_t algo,
					   void *workspace, size_t workspace_B, const void *beta,
					   cudnnTensorDescriptor_t dx_desc, void *dx);
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void *alpha, cudnnTensorDescriptor_t x_desc,
					     const void *x, cudnnTensorDescriptor_t dy_desc, const void *dy,
					     cudnnConvolutionDescriptor_t conv, cudnnConvolutionBwdFilterAlgo_t algo,
					     void *workspace, size_t workspace_B, const void *beta,
					     cudnnFilterDescriptor_t dw_desc, void *dw);
typedef void *cudnnBackendDescriptor_t;
typedef enum { CUDNN_REDUCE_TENSOR_ADD = 0, CUDNN_REDUCE_TENSOR_MAX = 3 } cudnnReduceTensorOp_t;
typedef enum {
	CUDNN_POINTWISE_ADD = 0,
	CUDNN_POINTWISE_MUL = 1,
	CUDNN_POINTWISE_DIV = 6,
	CUDNN_POINTWISE_SUB = 9,
	CUDNN_POINTWISE_EXP = 13,
	CUDNN_POINTWISE_LOG = 15,
	CUDNN_POINTWISE_IDENTITY = 21,
	CUDNN_POINTWISE_CMP_GE = 303,
	CUDNN_POINTWISE_GEN_INDEX = 501,
	CUDNN_POINTWISE_BINARY_SELECT = 601
} cudnnPointwiseMode_t;
typedef enum { CUDNN_HEUR_MODE_A = 3 } cudnnBackendHeurMode_t;
typedef enum {
	CUDNN_BACKEND_POINTWISE_DESCRIPTOR = 0,
	CUDNN_BACKEND_ENGINECFG_DESCRIPTOR = 3,
	CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR = 4,
	CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR = 5,
	CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR = 13,
	CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR = 15,
	CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR = 16,
	CUDNN_BACKEND_TENSOR_DESCRIPTOR = 17,
	CUDNN_BACKEND_MATMUL_DESCRIPTOR = 18,
	CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR = 19,
	CUDNN_BACKEND_REDUCTION_DESCRIPTOR = 21,
	CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR = 22,
	CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR = 31
} cudnnBackendDescriptorType_t;
typedef enum {
	CUDNN_ATTR_POINTWISE_MODE = 0,
	CUDNN_ATTR_POINTWISE_MATH_PREC = 1,
	CUDNN_ATTR_POINTWISE_AXIS = 9,
	CUDNN_ATTR_ENGINEHEUR_MODE = 200,
	CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH = 201,
	CUDNN_ATTR_ENGINEHEUR_RESULTS = 202,
	CUDNN_ATTR_EXECUTION_PLAN_HANDLE = 400,
	CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG = 401,
	CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE = 402,
	CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR = 750,
	CUDNN_ATTR_OPERATION_POINTWISE_XDESC = 751,
	CUDNN_ATTR_OPERATION_POINTWISE_BDESC = 752,
	CUDNN_ATTR_OPERATION_POINTWISE_YDESC = 753,
	CUDNN_ATTR_OPERATION_POINTWISE_TDESC = 758,
	CUDNN_ATTR_OPERATIONGRAPH_HANDLE = 800,
	CUDNN_ATTR_OPERATIONGRAPH_OPS = 801,
	CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT = 900,
	CUDNN_ATTR_TENSOR_DATA_TYPE = 901,
	CUDNN_ATTR_TENSOR_DIMENSIONS = 902,
	CUDNN_ATTR_TENSOR_STRIDES = 903,
	CUDNN_ATTR_TENSOR_UNIQUE_ID = 906,
	CUDNN_ATTR_TENSOR_IS_VIRTUAL = 907,
	CUDNN_ATTR_TENSOR_IS_BY_VALUE = 908,
	CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS = 1000,
	CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS = 1001,
	CUDNN_ATTR_VARIANT_PACK_WORKSPACE = 1003,
	CUDNN_ATTR_MATMUL_COMP_TYPE = 1500,
	CUDNN_ATTR_OPERATION_MATMUL_ADESC = 1520,
	CUDNN_ATTR_OPERATION_MATMUL_BDESC = 1521,
	CUDNN_ATTR_OPERATION_MATMUL_CDESC = 1522,
	CUDNN_ATTR_OPERATION_MATMUL_DESC = 1523,
	CUDNN_ATTR_REDUCTION_OPERATOR = 1600,
	CUDNN_ATTR_REDUCTION_COMP_TYPE = 1601,
	CUDNN_ATTR_OPERATION_REDUCTION_XDESC = 1610,
	CUDNN_ATTR_OPERATION_REDUCTION_YDESC = 1611,
	CUDNN_ATTR_OPERATION_REDUCTION_DESC = 1612,
	CUDNN_ATTR_OPERATION_RESHAPE_XDESC = 2200,
	CUDNN_ATTR_OPERATION_RESHAPE_YDESC = 2201
} cudnnBackendAttributeName_t;
typedef enum {
	CUDNN_TYPE_HANDLE = 0,
	CUDNN_TYPE_DATA_TYPE = 1,
	CUDNN_TYPE_BOOLEAN = 2,
	CUDNN_TYPE_INT64 = 3,
	CUDNN_TYPE_VOID_PTR = 6,
	CUDNN_TYPE_HEUR_MODE = 8,
	CUDNN_TYPE_POINTWISE_MODE = 14,
	CUDNN_TYPE_BACKEND_DESCRIPTOR = 15,
	CUDNN_TYPE_REDUCTION_OPERATOR_TYPE = 18
} cudnnBackendAttributeType_t;
cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *descriptor);
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor);
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor);
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
				       cudnnBackendAttributeType_t type, int64_t n, const void *value);
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor, cudnnBackendAttributeName_t name,
				       cudnnBackendAttributeType_t type, int64_t most, int64_t *n, void *value);
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack);
#endif

#if defined(MQ_CUDA_HEADERS) && __has_include(<nvrtc.h>) && __has_include(<cuda.h>)
#include <cuda.h>
#include <nvrtc.h>
#else
typedef int CUresult, nvrtcResult;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct nvrtcProgramOpaque *nvrtcProgram;
CUresult cuModuleLoadData(CUmodule *module, const void *image);
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
			unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_B,
			cudaStream_t stream, void **arguments, void **extra);
nvrtcResult nvrtcCreateProgram(nvrtcProgram *program, const char *source, const char *name, int n_headers,
			       const char *const *headers, const char *const *names);
nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int n_options, const char *const *options);
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t *size);
nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char *cubin);
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t *size);
nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char *log);
nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program);
nvrtcResult nvrtcVersion(int *major, int *minor);
#endif

/* Functions that must be there, per library. */
/* The formatter never comes to rest on these lists. */
/* clang-format off */
#define MQ_CUDART_FUNCTIONS(X)                                                                  \
	X(cudaRuntimeGetVersion) X(cudaDriverGetVersion) X(cudaGetDeviceCount) X(cudaSetDevice) \
	X(cudaDeviceGetAttribute) X(cudaDeviceGetPCIBusId) X(cudaDeviceCanAccessPeer)           \
	X(cudaGetErrorString) X(cudaMalloc) X(cudaFree) X(cudaMallocHost) X(cudaFreeHost)       \
	X(cudaHostRegister) X(cudaHostUnregister) X(cudaMemcpy) X(cudaMemcpyAsync) X(cudaMemset) \
	X(cudaMemGetInfo) X(cudaStreamCreateWithFlags) X(cudaStreamDestroy) X(cudaStreamQuery)  \
	X(cudaStreamWaitEvent) X(cudaEventCreate) X(cudaEventDestroy) X(cudaEventRecord)        \
	X(cudaEventQuery) X(cudaEventElapsedTime) X(cudaLaunchHostFunc)
#define MQ_CUBLAS_FUNCTIONS(X)                                                                  \
	X(cublasCreate_v2) X(cublasDestroy_v2) X(cublasGetVersion_v2) X(cublasSetStream_v2)     \
	X(cublasSaxpy_v2) X(cublasGemmEx) X(cublasGemmStridedBatchedEx)
#define MQ_NCCL_FUNCTIONS(X)                                                                    \
	X(ncclGetVersion) X(ncclGetUniqueId) X(ncclCommInitRank) X(ncclCommFinalize)            \
	X(ncclCommDestroy) X(ncclCommAbort) X(ncclCommGetAsyncError) X(ncclGetErrorString)      \
	X(ncclGetLastError) X(ncclGroupStart) X(ncclGroupEnd) X(ncclSend) X(ncclRecv)           \
	X(ncclAllReduce) X(ncclAllGather) X(ncclReduceScatter) X(ncclBroadcast) X(ncclReduce)
#define MQ_CUBLASLT_FUNCTIONS(X)                                                                \
	X(cublasLtCreate) X(cublasLtDestroy) X(cublasLtGetVersion) X(cublasLtMatmulDescCreate)  \
	X(cublasLtMatmulDescSetAttribute) X(cublasLtMatrixLayoutCreate)                         \
	X(cublasLtMatrixLayoutSetAttribute) X(cublasLtMatmulPreferenceCreate)                   \
	X(cublasLtMatmulPreferenceDestroy) X(cublasLtMatmulPreferenceSetAttribute)              \
	X(cublasLtMatmulAlgoGetHeuristic) X(cublasLtMatmul)
#define MQ_CUDNN_FUNCTIONS(X)                                                                   \
	X(cudnnGetVersion) X(cudnnGetErrorString) X(cudnnCreate) X(cudnnDestroy)                \
	X(cudnnSetStream) X(cudnnCreateTensorDescriptor) X(cudnnSetTensor4dDescriptor)          \
	X(cudnnCreateFilterDescriptor) X(cudnnSetFilter4dDescriptor)                            \
	X(cudnnCreateConvolutionDescriptor) X(cudnnSetConvolution2dDescriptor)                  \
	X(cudnnSetConvolutionGroupCount) X(cudnnSetConvolutionMathType)                         \
	X(cudnnGetConvolutionForwardAlgorithm_v7) X(cudnnGetConvolutionBackwardDataAlgorithm_v7) \
	X(cudnnGetConvolutionBackwardFilterAlgorithm_v7) X(cudnnConvolutionForward)             \
	X(cudnnConvolutionBackwardData) X(cudnnConvolutionBackwardFilter)                       \
	X(cudnnBackendCreateDescriptor) X(cudnnBackendDestroyDescriptor) X(cudnnBackendFinalize) \
	X(cudnnBackendSetAttribute) X(cudnnBackendGetAttribute) X(cudnnBackendExecute)
#define MQ_NVRTC_FUNCTIONS(X)                                                                   \
	X(nvrtcCreateProgram) X(nvrtcCompileProgram) X(nvrtcGetCUBINSize) X(nvrtcGetCUBIN)      \
	X(nvrtcGetProgramLogSize) X(nvrtcGetProgramLog) X(nvrtcDestroyProgram) X(nvrtcVersion)
#define MQ_DRIVER_FUNCTIONS(X)                                                                  \
	X(cuModuleLoadData) X(cuModuleGetFunction) X(cuLaunchKernel)
/* clang-format on */

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
	/* NULL where no schedule asks for them, or none is there. */
	MQ_CUBLASLT_FUNCTIONS(MQ_FUNCTION_POINTER)
	MQ_CUDNN_FUNCTIONS(MQ_FUNCTION_POINTER)
	MQ_NVRTC_FUNCTIONS(MQ_FUNCTION_POINTER)
	MQ_DRIVER_FUNCTIONS(MQ_FUNCTION_POINTER)
	__typeof__(cublasGemmGroupedBatchedEx) *cublasGemmGroupedBatchedEx; /* NULL before CUDA 12.5 */
	/* NVML is optional: NULL where the library is missing. */
	int (*nvmlInit_v2)(void);
	int (*nvmlDeviceGetHandleByIndex_v2)(unsigned int index, void **device);
	/* Topology: each may be NULL. */
	int (*nvmlDeviceGetHandleByPciBusId_v2)(const char *busid, void **device);
	int (*nvmlDeviceGetMaxPcieLinkGeneration)(void *device, unsigned int *generation);
	int (*nvmlDeviceGetCurrPcieLinkWidth)(void *device, unsigned int *width);
	int (*nvmlDeviceGetTopologyCommonAncestor)(void *a, void *b, int *level);
	int (*nvmlDeviceGetNvLinkState)(void *device, unsigned int link, int *active);
	int (*nvmlDeviceGetNvLinkRemotePciInfo_v2)(void *device, unsigned int link, struct mq_nvml_pci *pci);
	int (*nvmlDeviceGetNvLinkRemoteDeviceType)(void *device, unsigned int link, int *type);
	int (*nvmlDeviceGetMigMode)(void *device, unsigned int *current, unsigned int *pending);
	int (*nvmlDeviceGetName)(void *device, char *name, unsigned int length);
	int (*nvmlDeviceGetClockInfo)(void *device, int type, unsigned int *MHz);
	int (*nvmlDeviceGetTemperature)(void *device, int sensor, unsigned int *celsius);
	int (*nvmlDeviceGetPowerUsage)(void *device, unsigned int *milliwatts);
	int (*nvmlDeviceGetCurrentClocksThrottleReasons)(void *device, unsigned long long *reasons);
};

#endif
