// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package helm_test

import (
	"strings"
	"testing"

	"github.com/leatdev/leat/render"
)

// TestKeysThatOccurTwice takes the last value of a key in a chart's output, as Helm does, and warns
// of it with file and document. Output with other mistakes is refused as before.
func TestKeysThatOccurTwice(t *testing.T) {
	t.Parallel()
	twice := manifest("a", "1") + "  v: 2\n"
	out, err := renderChart(t, chartOf(map[string]string{"templates/a.yaml": manifest("b", "1") + "---\n" + twice}), render.Input{})
	if err != nil || len(out.Objects) != 2 {
		t.Fatalf("got %v, %v, want both objects", out, err)
	}
	if data, _ := out.Objects[1].Object["data"].(map[string]any); data["v"] != int64(2) {
		t.Errorf("got %v, want the last value", data)
	}
	if len(out.Warnings) != 1 || !strings.Contains(out.Warnings[0], "templates/a.yaml") || !strings.Contains(out.Warnings[0], `key "v" already set in map`) {
		t.Errorf("got the warnings %q, want one with the file and the key", out.Warnings)
	}
	if _, err := renderChart(t, chartOf(map[string]string{"templates/a.yaml": twice + " x: ["}), render.Input{}); err == nil {
		t.Error("a text that is no YAML was taken")
	}
}
