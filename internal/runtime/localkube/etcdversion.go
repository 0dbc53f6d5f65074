// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package localkube

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/leatdev/leat/internal/kit/durable"
)

// etcdVersionFile is in the data directory, and holds the version of the etcd that wrote the data.
const etcdVersionFile = "etcd-version"

// EtcdVersion returns the version of the etcd that last ran in a data directory, such as "3.7.3".
// An etcd with an older minor version cannot read the data. It is empty if none ran there, or only
// without nodes.
func EtcdVersion(dataDir string) string {
	text, _ := os.ReadFile(filepath.Join(dataDir, etcdVersionFile)) // absent before the first start
	return strings.TrimSpace(string(text))
}

// recordEtcdVersion stores the version of the running etcd for EtcdVersion.
func (cp *ControlPlane) recordEtcdVersion(ctx context.Context) error {
	etcd, end, err := cp.etcdClient()
	if err != nil {
		return fmt.Errorf("read version of etcd: %w", err)
	}
	defer end()
	var running struct{ Etcdserver string }
	if err := etcd.do(ctx, http.MethodGet, "/version", nil, &running); err != nil {
		return fmt.Errorf("read version of etcd: %w", err)
	}
	if running.Etcdserver == EtcdVersion(cp.dir) {
		return nil
	}
	if err := durable.WriteFile(cp.path(etcdVersionFile), etcdVersionFile+"-*", []byte(running.Etcdserver)); err != nil {
		return fmt.Errorf("store version of etcd: %w", err)
	}
	return nil
}
