// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubeconfig makes kubeconfigs for kubectl, and everything else that is built on client-go,
// which reach a cluster through a hub's tunnel. They hold no secret: kubectl runs leat for a token.
package kubeconfig

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"

	"go.yaml.in/yaml/v3"
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

type (
	config struct {
		APIVersion     string         `yaml:"apiVersion"`
		Kind           string         `yaml:"kind"`
		Clusters       []namedCluster `yaml:"clusters"`
		Users          []namedUser    `yaml:"users"`
		Contexts       []namedContext `yaml:"contexts"`
		CurrentContext string         `yaml:"current-context"`
	}
	namedCluster struct {
		Name    string  `yaml:"name"`
		Cluster cluster `yaml:"cluster"`
	}
	cluster struct {
		Server string `yaml:"server"`
		CAData string `yaml:"certificate-authority-data,omitempty"`
	}
	namedUser struct {
		Name string `yaml:"name"`
		User user   `yaml:"user"`
	}
	user struct {
		Exec exec `yaml:"exec"`
	}
	exec struct {
		APIVersion      string   `yaml:"apiVersion"`
		Command         string   `yaml:"command"`
		Args            []string `yaml:"args"`
		InstallHint     string   `yaml:"installHint"`
		InteractiveMode string   `yaml:"interactiveMode"`
	}
	namedContext struct {
		Name    string      `yaml:"name"`
		Context contextBody `yaml:"context"`
	}
	contextBody struct {
		Cluster string `yaml:"cluster"`
		User    string `yaml:"user"`
	}
)

// Make returns the file as YAML.
func Make(p Params) ([]byte, error) {
	c := config{APIVersion: "v1", Kind: "Config"}
	ca := base64.StdEncoding.EncodeToString(p.CAPEM)
	for i, inFleet := range p.Clusters {
		name := "leat-" + inFleet // distinct from the cluster's name in other kubeconfigs
		if i == 0 {
			c.CurrentContext = name
		}
		c.Clusters = append(c.Clusters, namedCluster{name, cluster{Server: ServerURL(p.TunnelURL, inFleet), CAData: ca}})
		c.Users = append(c.Users, namedUser{name, user{p.exec(inFleet)}})
		c.Contexts = append(c.Contexts, namedContext{name, contextBody{Cluster: name, User: name}})
	}
	content, err := yaml.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("make kubeconfig: %w", err)
	}
	return content, nil
}

func (p Params) exec(cluster string) exec {
	return exec{
		APIVersion:      ExecVersion,
		Command:         p.Command,
		Args:            p.Args,
		InstallHint:     "leat was moved or removed; make this file again with leat kubeconfig " + cluster,
		InteractiveMode: "Never",
	}
}

// ServerURL returns the address of a cluster's Kubernetes API behind a tunnel.
func ServerURL(tunnel, cluster string) string {
	return strings.TrimRight(tunnel, "/") + "/clusters/" + url.PathEscape(cluster)
}
