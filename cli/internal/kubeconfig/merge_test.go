// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeconfig_test

import (
	"strings"
	"testing"

	"github.com/leatdev/leat/cli/internal/kubeconfig"
)

func TestMergeKeepsWhatIsThere(t *testing.T) {
	t.Parallel()
	written := func(clusters ...string) string {
		content, err := kubeconfig.Make(kubeconfig.Params{Clusters: clusters, TunnelURL: "https://hub", Command: "/bin/leat", Args: []string{"token"}})
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	existing := "apiVersion: v1\nkind: Config\ncurrent-context: mine\npreferences: {colors: true}\nclusters:\n" +
		"- name: mine\n  cluster: {server: https://mine, tls-server-name: x}\n- name: leat-b\n  cluster: {server: https://old}\n"
	merged, err := kubeconfig.Merge([]byte(existing), []byte(written("a", "b")))
	if err != nil {
		t.Fatal(err)
	}
	got := string(merged)
	for _, want := range []string{"current-context: mine", "colors: true", "tls-server-name: x", "https://hub/clusters/a", "https://hub/clusters/b", "name: leat-a"} {
		if !strings.Contains(got, want) {
			t.Errorf("got %s, want %q in it", got, want)
		}
	}
	if strings.Contains(got, "https://old") || strings.Count(got, "name: leat-b") != 3 {
		t.Errorf("got %s, want the entry of the same name replaced", got)
	}
	again, err := kubeconfig.Merge(merged, []byte(written("a", "b")))
	if err != nil || string(again) != got {
		t.Errorf("got %s, %v, want no change the second time", again, err)
	}
	if fresh, err := kubeconfig.Merge(nil, []byte(written("a"))); err != nil || string(fresh) != written("a") {
		t.Errorf("got %s, %v, want the added alone", fresh, err)
	}
	for _, bad := range []string{"kind: Pod", "{", "kind: Config\nusers: 3", "- a"} {
		if _, err := kubeconfig.Merge([]byte(bad), []byte(written("a"))); err == nil {
			t.Errorf("%q was merged into", bad)
		}
	}
}
