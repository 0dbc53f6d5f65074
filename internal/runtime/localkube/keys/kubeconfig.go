// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"encoding/base64"
	"fmt"
	"os"
)

// Kubeconfig returns a self-contained kubeconfig for client-go and kubectl. name is the name of its
// cluster, user and context.
func (d Dir) Kubeconfig(name, host string) ([]byte, error) {
	var encoded [3]string
	for i, file := range []string{CACert, AdminCert, AdminKey} {
		content, err := os.ReadFile(d.Path(file))
		if err != nil {
			return nil, fmt.Errorf("make kubeconfig: %w", err)
		}
		encoded[i] = base64.StdEncoding.EncodeToString(content)
	}
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: %[1]q
clusters:
- name: %[1]q
  cluster:
    server: %[2]s
    certificate-authority-data: %[3]s
users:
- name: %[1]q
  user:
    client-certificate-data: %[4]s
    client-key-data: %[5]s
contexts:
- name: %[1]q
  context:
    cluster: %[1]q
    user: %[1]q
`, name, host, encoded[0], encoded[1], encoded[2]), nil
}
