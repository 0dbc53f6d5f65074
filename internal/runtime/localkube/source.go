// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package localkube

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// ErrSourceNotFound means that a folder is not inside a checkout of Leat, so there is nothing to
// build a control plane from.
var ErrSourceNotFound = errors.New("no tools/kube in this folder or above it")

// FindSource walks from dir up to the root and returns the first tools/kube it finds, which is a
// valid BuildParams.SourceDir. If there is none, the error matches ErrSourceNotFound.
func FindSource(dir string) (string, error) {
	start, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find control plane source: %w", err)
	}
	for at := start; ; at = filepath.Dir(at) {
		candidate := filepath.Join(at, "tools", "kube")
		if _, err := os.Stat(filepath.Join(candidate, "kubernetes", "go.mod")); err == nil {
			return candidate, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("%s: %w: run inside a checkout of Leat, or use your own cluster with --kubeconfig", start, ErrSourceNotFound)
		}
	}
}

// pin is determined by one module under the source folder: the version of the component it builds,
// and a key that changes whenever the result would.
type pin struct {
	dir     string
	version string
	sums    []byte // go.mod and go.sum, one after the other
}

// readPin reads the module in dir, which must require the Go module component.
func readPin(dir, component string) (pin, error) {
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return pin{}, fmt.Errorf("read control plane source, which is tools/kube in a checkout of Leat: %w", err)
	}
	sum, err := os.ReadFile(filepath.Join(dir, "go.sum"))
	if err != nil {
		return pin{}, fmt.Errorf("read control plane source: %w", err)
	}
	version, ok := requiredVersion(string(mod), component)
	if !ok {
		return pin{}, fmt.Errorf("read control plane source: %s does not require %s", filepath.Join(dir, "go.mod"), component)
	}
	return pin{dir: dir, version: version, sums: append(mod, sum...)}, nil
}

// requiredVersion finds component among the require lines of a go.mod. A
// replace line never matches, because there a version does not follow the path.
func requiredVersion(mod, component string) (string, bool) {
	for line := range strings.Lines(mod) {
		fields := strings.Fields(strings.TrimPrefix(line, "require "))
		if len(fields) >= 2 && fields[0] == component && strings.HasPrefix(fields[1], "v") {
			return fields[1], true
		}
	}
	return "", false
}
