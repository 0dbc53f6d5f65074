// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"path/filepath"
	"testing"
)

// TestHelm installs, upgrades, rolls back, tests and removes a chart, by every way.
func TestHelm(t *testing.T) {
	t.Parallel()
	r := theRig(t)
	chart, err := filepath.Abs("testdata/shop")
	if err != nil {
		t.Fatal(err)
	}
	helm := func(args ...string) step {
		s := k(args...)
		s.name, s.program = "helm"+s.name[len("kubectl"):], r.binaries.Helm
		return s
	}
	compare(t, r, "helm", names(false, false), []step{
		k("create", "namespace", "$NS"),
		helm("install", "shop", chart, "--wait", "--timeout=240s"),
		helm("upgrade", "shop", chart, "--set=colour=red", "--wait", "--timeout=240s"),
		helm("test", "shop", "--timeout=240s"),
		helm("history", "shop", "--output=json"),
		k("get", "configmap", "shop", "--output=jsonpath={.data.colour}"),
		helm("rollback", "shop", "1", "--wait", "--timeout=240s"),
		k("get", "configmap", "shop", "--output=jsonpath={.data.colour}"),
		helm("get", "manifest", "shop"),
		helm("upgrade", "shop", chart, "--set=colour=", "--post-renderer=/nonexistent").fails(1),
		helm("list", "--output=json"),
		helm("uninstall", "shop", "--wait", "--timeout=240s"),
		helm("status", "shop").fails(1),
		k("delete", "namespace", "$NS", "--wait=false"),
	})
}
