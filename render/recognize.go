// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
)

// recognize returns the error of a file that was read as a manifest and is not one. If the file
// belongs to a Helm chart or is a kustomization, the error names that, and what to do, instead of
// how its text is no manifest.
func (f *Files) recognize(name string, err error) error {
	invalid, ok := errors.AsType[*Error](err)
	if _, isVariable := errors.AsType[*VariableError](err); !ok || isVariable {
		return err
	}
	recognized := *invalid
	folder := path.Dir(name)
	if slices.Contains(KustomizationFiles(), path.Base(name)) {
		recognized.Cause = fmt.Errorf("is a kustomization, and the service's folder above it holds none; make %s the path of the source, "+
			"list it under resources of a kustomization.yaml in the service's folder, or leave it out with the source's exclude", folder)
		return &recognized
	}
	for ; ; folder = path.Dir(folder) {
		if _, isChart := f.content[path.Join(folder, "Chart.yaml")]; isChart {
			recognized.Cause = fmt.Errorf("is part of the Helm chart in %s, which the service's folder above it does not render; make %s the path of "+
				"a source or of a render step, or leave the chart out with the source's exclude", folder, folder)
			return &recognized
		}
		if folder == "." {
			break
		}
	}
	// A text that can be read, such as a dashboard with {{ in its legends, is not a template.
	if bytes.Contains(f.content[name], []byte("{{")) && !errors.Is(invalid.Cause, errNoKind) {
		recognized.Cause = fmt.Errorf("looks like a template of a Helm chart, but no folder above it holds Chart.yaml; add that to the source, "+
			"or leave the file out with the source's exclude: %w", invalid.Cause)
		return &recognized
	}
	return err
}
