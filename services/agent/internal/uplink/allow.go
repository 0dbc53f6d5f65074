// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uplink

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Service is a port of a service in the cluster.
type Service struct {
	Namespace string
	Name      string
	Port      int
	// TLS means that the service uses https.
	TLS bool
}

// ParseService parses namespace/service:port, or namespace/https:service:port for TLS. Each service
// has one spelling: there are no wildcards, port names or leading zeros.
func ParseService(text string) (Service, error) {
	s, ok := parseService(text)
	if !ok {
		return Service{}, fmt.Errorf("service %q: want namespace/service:port, such as shop/web:8080, or namespace/https:service:port for TLS; "+
			"the port is a number, and there are no wildcards", text)
	}
	return s, nil
}

func parseService(text string) (s Service, ok bool) {
	namespace, rest, _ := strings.Cut(text, "/")
	parts := strings.Split(rest, ":")
	if len(parts) == 3 && parts[0] == "https" {
		s.TLS, parts = true, parts[1:]
	}
	if len(parts) != 2 {
		return Service{}, false
	}
	port, err := strconv.Atoi(parts[1])
	if err != nil || strconv.Itoa(port) != parts[1] {
		return Service{}, false
	}
	s.Namespace, s.Name, s.Port = namespace, parts[0], port
	return s, isLabel(s.Namespace) && isLabel(s.Name) && len(validation.IsValidPortNum(port)) == 0
}

func isLabel(name string) bool { return len(validation.IsDNS1123Label(name)) == 0 }

// String returns the form that ParseService parses.
func (s Service) String() string { return s.Namespace + "/" + s.segment() }

// segment returns the service's segment in paths.
func (s Service) segment() string {
	text := s.Name + ":" + strconv.Itoa(s.Port)
	if s.TLS {
		return "https:" + text
	}
	return text
}

// host returns the service's name in the cluster's DNS, with its port.
func (s Service) host() string { return s.Name + "." + s.Namespace + ".svc:" + strconv.Itoa(s.Port) }

// URL returns where the service is, without a path.
func (s Service) URL() *url.URL { return &url.URL{Scheme: s.scheme(), Host: s.host()} }

func (s Service) scheme() string {
	if s.TLS {
		return "https"
	}
	return "http"
}
