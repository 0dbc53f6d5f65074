// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package redisconn makes Redis clients from URLs.
package redisconn

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// redisTimeout bounds every step of a call: a hanging Redis must not delay reads, which continue
// without it.
const redisTimeout = 2 * time.Second

// clusterReload is the largest age of the cached slot table. A dead master redirects no client, so
// this also bounds how late a fail-over is noticed. Leases must last longer.
const clusterReload = 2 * time.Second

// Open returns a client for a URL:
//
//	redis://user:password@host:port/number             one server; rediss:// for TLS
//	redis+sentinel://host:port/number?master_name=…    the master that Sentinels report; further Sentinels as &addr=host:port,
//	                                                   &username= and &password= for the servers, user:password@ for Sentinel;
//	                                                   rediss+sentinel:// for TLS to Sentinels and servers
//	redis+cluster://user:password@host:port            a cluster; further nodes as ?addr=host:port; rediss+cluster:// for TLS
//
// The URL also accepts the parameters of go-redis's ParseURL, ParseFailoverURL and ParseClusterURL,
// except skip_verify: TLS is always verified, for each server against the address that is dialled.
// The file caFile holds the PEM certificates to trust instead of the system's. Empty: the system's.
// It is an error to set it without TLS. The file is read once.
func Open(url, caFile string) (redis.UniversalClient, error) {
	// go-redis has one logger for the whole process, which writes its own lines to standard error.
	// Everything it logs is also returned as an error, and is logged where it matters.
	redis.SetLogger(&logging.VoidLogger{})
	scheme, rest, _ := strings.Cut(url, "://")
	scheme, kind, _ := strings.Cut(scheme, "+")
	security, err := readSecurity(scheme, caFile)
	if err != nil {
		return nil, err
	}
	plain := scheme + "://" + rest
	switch kind {
	case "":
		return openServer(plain, security)
	case "sentinel":
		return openSentinel(plain, security)
	case "cluster":
		return openCluster(plain, security)
	}
	return nil, fmt.Errorf("parse redis url: unknown scheme %q, want redis, redis+sentinel or redis+cluster", scheme+"+"+kind)
}

// readSecurity returns the TLS settings of a scheme, or nil for a scheme without TLS. The settings
// do not name a server: go-redis verifies each server against the address that it dials.
func readSecurity(scheme, caFile string) (*tls.Config, error) {
	if scheme != "rediss" {
		if caFile != "" {
			return nil, errors.New("a CA file for Redis needs a URL with TLS: rediss://, rediss+sentinel:// or rediss+cluster://")
		}
		return nil, nil
	}
	security := &tls.Config{MinVersion: tls.VersionTLS12}
	if caFile == "" {
		return security, nil
	}
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("read CA file of redis: %w", err)
	}
	security.RootCAs = x509.NewCertPool()
	if !security.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read CA file of redis: %s holds no PEM certificate", caFile)
	}
	return security, nil
}

// Errors are not wrapped below, because they would repeat the URL, and with it the password.

func openServer(url string, security *tls.Config) (redis.UniversalClient, error) {
	o, err := redis.ParseURL(url)
	if err != nil {
		return nil, errors.New("parse redis url: want redis://[user:password@]host:port/number")
	}
	o.TLSConfig = security
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = redisTimeout, redisTimeout, redisTimeout
	o.ContextTimeoutEnabled = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewClient(o), nil
}

func openSentinel(url string, security *tls.Config) (redis.UniversalClient, error) {
	o, err := redis.ParseFailoverURL(url)
	if err != nil || o.MasterName == "" {
		return nil, errors.New("parse redis url: want redis+sentinel://host:port/number?master_name=name[&addr=host:port][&password=…]")
	}
	o.TLSConfig = security
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = redisTimeout, redisTimeout, redisTimeout
	o.ContextTimeoutEnabled = true
	return redis.NewFailoverClient(o), nil
}

func openCluster(url string, security *tls.Config) (redis.UniversalClient, error) {
	o, err := redis.ParseClusterURL(url)
	if err != nil {
		return nil, errors.New("parse redis url: want redis+cluster://[user:password@]host:port[?addr=host:port]")
	}
	o.TLSConfig = security
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = redisTimeout, redisTimeout, redisTimeout
	o.ContextTimeoutEnabled = true
	o.ClusterStateReloadInterval = clusterReload
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewClusterClient(o), nil
}
