package backendtest

import "testing"

func oracle(t *testing.T, open New) {}
