// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package containers_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/testkit/standin"
)

// person uses the hub from the machine, by the address of the front and with the files of the
// service init.
type person struct {
	engine *engine
	// folder holds these files.
	folder, token string
}

// newPerson takes the files that are in a folder.
func newPerson(t *testing.T, e *engine, folder string) *person {
	t.Helper()
	token, err := os.ReadFile(filepath.Join(folder, "token"))
	if err != nil {
		t.Fatal(err)
	}
	return &person{engine: e, folder: folder, token: strings.TrimSpace(string(token))}
}

// leatArgs are the arguments of docker with which it runs the command line from its image, in the
// engine's network.
func (p *person) leatArgs() []string {
	return []string{
		"run", "--rm", "--network", "host", "--user", "0:0", "--volume", p.folder + ":/documents:ro", "--env", "LEAT_SERVER=" + origin,
		"--env", "LEAT_TOKEN=" + p.token, "--env", "LEAT_CA_FILE=/documents/ca.crt", p.engine.own.Image("leat"),
	}
}

func (p *person) leat(t *testing.T, args ...string) string {
	t.Helper()
	return p.engine.ask(t, append(p.leatArgs(), args...)...)
}

// kubeconfig returns a file that reaches a cluster through the front. It is the one that leat prints,
// except that leat is in a container here.
func (p *person) kubeconfig(t *testing.T, cluster string) string {
	t.Helper()
	folder := t.TempDir()
	leat, kubeconfig := filepath.Join(folder, "leat"), filepath.Join(folder, "kubeconfig")
	standin.Write(t, leat, "#!/bin/sh\nexec "+p.engine.docker+" '"+strings.Join(p.leatArgs(), "' '")+"' \"$@\"\n")
	config := strings.ReplaceAll(p.leat(t, "kubeconfig", cluster), "/usr/local/bin/leat", leat)
	if !strings.Contains(config, "server: "+origin+"/clusters/"+cluster) {
		t.Errorf("got %s, want the front's address", config)
	}
	if err := os.WriteFile(kubeconfig, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}
