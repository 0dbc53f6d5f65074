// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package chartdep_test

import (
	"strings"
	"testing"

	"github.com/leatdev/leat/services/gitcache/internal/chartdep"
)

// FuzzSecChartFiles reads any files of a chart. Their needs have a name and a version that cannot
// lead out of the folder that it is packed into, and is bounded.
func FuzzSecChartFiles(f *testing.F) {
	f.Add("{name: a, dependencies: [{name: b, version: 1, repository: \"file://../b\"}]}", "", "")
	f.Add("{name: a, dependencies: [{name: b, version: ^1, repository: https://x}]}", "{digest: x, dependencies: [{name: b, version: 1.0.0}]}", "")
	f.Add("{apiVersion: v1, name: a}", "", "dependencies:\n- name: ../b\n  version: '*'\n  repository: '@x'\n")
	f.Add(chartByHelm, "", "")
	f.Fuzz(func(t *testing.T, chart, lock, requirements string) {
		texts := chartdep.Texts{chartdep.ChartFile: []byte(chart)}
		if lock != "" {
			texts[chartdep.LockFile] = []byte(lock)
		}
		if requirements != "" {
			texts[chartdep.RequirementsFile] = []byte(requirements)
		}
		c, err := chartdep.Read(texts)
		if err != nil {
			return
		}
		wanted, err := c.Missing("charts/a", func(string) bool { return false })
		if err != nil {
			return
		}
		if len(wanted) > chartdep.MaxDeclared {
			t.Errorf("got %d dependencies", len(wanted))
		}
		for _, w := range wanted {
			if w.Name == "" || w.Name[0] == '.' || strings.ContainsAny(w.Name+w.Version, "/\\\x00") || w.Version == "" && w.Local == "" {
				t.Errorf("got %+v", w)
			}
			if folder, ok := chartdep.Within("charts/a", w.Local); ok && (strings.HasPrefix(folder, "/") || strings.HasPrefix(folder+"/", "../")) {
				t.Errorf("got the folder %q for %q", folder, w.Local)
			}
		}
	})
}
