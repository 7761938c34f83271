/* Answers strings by an exported SavedModel through TensorFlow's C API: no Python, no Keras, no tokenizer beside it.

   answer FOLDER NAME=OPERATION:INDEX ... -- NAME=OPERATION:INDEX ...
          inputs, then outputs, as the SavedModel's signature names them

   Standard input, for each input: "axes size ...", then a line for each string, in hexadecimal.
   Standard output, for each output: "NAME type axes size ...", then a line for each value: a string in hexadecimal, or a
   number. What fails is one line on standard error, and the exit status 1. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensorflow/c/c_api.h"

enum { MOST = 8, LONGEST = 1 << 20 };

static char line[LONGEST];

static void fail(const char *what, const char *detail) {
  fprintf(stderr, "%s: %s\n", what, detail);
  exit(1);
}

static void check(const TF_Status *status, const char *what) {
  if (TF_GetCode(status) != TF_OK) fail(what, TF_Message(status));
}

/* Cuts NAME=OPERATION:INDEX in `text` itself, and finds the place in the graph. */
static TF_Output place_of(TF_Graph *graph, char *text) {
  char *operation = strchr(text, '='), *index = strrchr(text, ':');
  if (operation == NULL || index == NULL || index < operation) fail("must be NAME=OPERATION:INDEX", text);
  *operation++ = *index++ = '\0';
  TF_Output place = {TF_GraphOperationByName(graph, operation), atoi(index)};
  if (place.oper == NULL) fail("is not in the graph", operation);
  return place;
}

static const char *read_line(void) {
  if (fgets(line, LONGEST, stdin) == NULL) fail("standard input", "ended too early");
  line[strcspn(line, "\n")] = '\0';
  return line;
}

static TF_Tensor *read_strings(void) {
  int64_t sizes[MOST], count = 1;
  int axes = 0, used = 0, next = 0;
  const char *text = read_line();
  if (sscanf(text, "%d%n", &axes, &used) != 1 || axes < 0 || axes > MOST) fail("must be axes and sizes", text);
  for (int axis = 0; axis < axes; axis++, used += next) {
    long long size = 0;
    if (sscanf(text + used, "%lld%n", &size, &next) != 1 || size < 0) fail("must be axes and sizes", text);
    count *= sizes[axis] = size;
  }
  TF_Tensor *tensor = TF_AllocateTensor(TF_STRING, sizes, axes, (size_t)count * sizeof(TF_TString));
  TF_TString *strings = TF_TensorData(tensor);
  for (int64_t i = 0; i < count; i++) {
    const char *digits = read_line();
    size_t size = strlen(digits) / 2;
    char *bytes = malloc(size + 1);
    for (size_t j = 0; j < size; j++) {
      unsigned byte = 0;
      if (sscanf(digits + 2 * j, "%2x", &byte) != 1) fail("must be hexadecimal", digits);
      bytes[j] = (char)byte;
    }
    TF_TString_Init(&strings[i]);
    TF_TString_Copy(&strings[i], bytes, size);
    free(bytes);
  }
  return tensor;
}

static void write_value(const TF_Tensor *tensor, int64_t i) {
  const void *data = TF_TensorData(tensor);
  switch (TF_TensorType(tensor)) {
    case TF_STRING: {
      const TF_TString *string = (const TF_TString *)data + i;
      const unsigned char *bytes = (const unsigned char *)TF_TString_GetDataPointer(string);
      for (size_t j = 0; j < TF_TString_GetSize(string); j++) printf("%02x", bytes[j]);
      printf("\n");
      break;
    }
    case TF_FLOAT:
      printf("%.9g\n", ((const float *)data)[i]);
      break;
    case TF_INT32:
      printf("%d\n", ((const int32_t *)data)[i]);
      break;
    default:
      fail("must be strings, floats or int32", "an output");
  }
}

static void write_tensor(const char *name, const TF_Tensor *tensor) {
  int64_t count = 1;
  printf("%s %d %d", name, (int)TF_TensorType(tensor), TF_NumDims(tensor));
  for (int axis = 0; axis < TF_NumDims(tensor); axis++) {
    printf(" %lld", (long long)TF_Dim(tensor, axis));
    count *= TF_Dim(tensor, axis);
  }
  printf("\n");
  for (int64_t i = 0; i < count; i++) write_value(tensor, i);
}

int main(int given, char **words) {
  TF_Output places[2][MOST];
  TF_Tensor *values[2][MOST];
  char *names[2][MOST];
  int counts[2] = {0, 0}, side = 0;
  if (given < 2) fail("usage", "answer FOLDER INPUT ... -- OUTPUT ...");

  TF_Status *status = TF_NewStatus();
  TF_Graph *graph = TF_NewGraph();
  TF_SessionOptions *options = TF_NewSessionOptions();
  const char *tags[] = {"serve"};
  TF_Session *session = TF_LoadSessionFromSavedModel(options, NULL, words[1], tags, 1, graph, NULL, status);
  check(status, "the SavedModel does not load");

  for (int i = 2; i < given; i++) {
    if (strcmp(words[i], "--") == 0) {
      side = 1;
      continue;
    }
    if (counts[side] == MOST) fail("too many", words[i]);
    names[side][counts[side]] = words[i];
    places[side][counts[side]++] = place_of(graph, words[i]);
  }
  for (int i = 0; i < counts[0]; i++) values[0][i] = read_strings();

  TF_SessionRun(session, NULL, places[0], values[0], counts[0], places[1], values[1], counts[1], NULL, 0, NULL, status);
  check(status, "the model does not answer");
  for (int i = 0; i < counts[1]; i++) write_tensor(names[1][i], values[1][i]);

  for (side = 0; side < 2; side++)
    for (int i = 0; i < counts[side]; i++) TF_DeleteTensor(values[side][i]);
  TF_CloseSession(session, status);
  TF_DeleteSession(session, status);
  TF_DeleteSessionOptions(options);
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
  return 0;
}
