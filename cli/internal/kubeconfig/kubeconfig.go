// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubeconfig makes kubeconfigs for kubectl, and everything else that is built on client-go,
// which reach a cluster through a hub's tunnel. They hold no secret: kubectl runs leat for a token.
package kubeconfig

import (
	"fmt"
	"net/url"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// ExecVersion is the version of the protocol between kubectl and leat.
const ExecVersion = "client.authentication.k8s.io/v1"

// Params are the content of a kubeconfig.
type Params struct {
	Clusters  []string // the clusters' names in the fleet; the first is the current context
	TunnelURL string   // base URL of the tunnel
	CAPEM     []byte   // certificates to trust for it; empty means the system's
	Command   string   // absolute path of leat
	Args      []string // of leat, for a token
}

// Make returns the file as YAML.
func Make(p Params) ([]byte, error) {
	c := clientcmdapi.NewConfig()
	for i, inFleet := range p.Clusters {
		name := "leat-" + inFleet // distinct from the cluster's name in other kubeconfigs
		if i == 0 {
			c.CurrentContext = name
		}
		c.Clusters[name] = &clientcmdapi.Cluster{Server: ServerURL(p.TunnelURL, inFleet), CertificateAuthorityData: p.CAPEM}
		c.AuthInfos[name] = &clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
			APIVersion:      ExecVersion,
			Command:         p.Command,
			Args:            p.Args,
			InstallHint:     "leat was moved or removed; make this file again with leat kubeconfig " + inFleet,
			InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
		}}
		c.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	}
	content, err := clientcmd.Write(*c)
	if err != nil {
		return nil, fmt.Errorf("make kubeconfig: %w", err)
	}
	return content, nil
}

// ServerURL returns the address of a cluster's Kubernetes API behind a tunnel.
func ServerURL(tunnel, cluster string) string {
	return strings.TrimRight(tunnel, "/") + "/clusters/" + url.PathEscape(cluster)
}
