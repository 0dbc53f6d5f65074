// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package redisconn makes clients for Redis of URLs, for the services that use one.
package redisconn

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// redisTimeout bounds every step of a call: a Redis that hangs must not hold up reads, which go on without it.
const redisTimeout = 2 * time.Second

// clusterReload is how old the knowledge of who holds which slot may get. A master that is gone redirects nobody, so this
// is also how late a fail-over is noticed; leases have to outlive that.
const clusterReload = 2 * time.Second

// Open makes a client for a URL:
//
//	redis://user:password@host:port/number             one server; rediss:// for TLS
//	redis+sentinel://host:port/number?master_name=…    the master that Sentinels know; further Sentinels as &addr=host:port,
//	                                                   &username= and &password= for the servers, user:password@ for Sentinel
//	redis+cluster://user:password@host:port            a cluster; further nodes as ?addr=host:port
//
// What else can be set in the URL is what go-redis's ParseURL, ParseFailoverURL and ParseClusterURL take.
func Open(url string) (redis.UniversalClient, error) {
	// The client has one logger for the whole process, which writes lines of its own to standard error. Whatever goes
	// wrong comes back as an error too, and is logged where it matters.
	redis.SetLogger(&logging.VoidLogger{})
	scheme, rest, _ := strings.Cut(url, "://")
	scheme, kind, _ := strings.Cut(scheme, "+")
	plain := scheme + "://" + rest
	switch kind {
	case "":
		return openServer(plain)
	case "sentinel":
		return openSentinel(plain)
	case "cluster":
		return openCluster(plain)
	}
	return nil, fmt.Errorf("parse redis url: %q is none of redis, redis+sentinel and redis+cluster", scheme+"+"+kind)
}

// Causes are left out below because they would repeat the URL, and with it the password.

func openServer(url string) (redis.UniversalClient, error) {
	o, err := redis.ParseURL(url)
	if err != nil {
		return nil, errors.New("parse redis url: want redis://[user:password@]host:port/number")
	}
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = redisTimeout, redisTimeout, redisTimeout
	o.ContextTimeoutEnabled = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewClient(o), nil
}

func openSentinel(url string) (redis.UniversalClient, error) {
	o, err := redis.ParseFailoverURL(url)
	if err != nil || o.MasterName == "" {
		return nil, errors.New("parse redis url: want redis+sentinel://host:port/number?master_name=name[&addr=host:port][&password=…]")
	}
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = redisTimeout, redisTimeout, redisTimeout
	o.ContextTimeoutEnabled = true
	return redis.NewFailoverClient(o), nil
}

func openCluster(url string) (redis.UniversalClient, error) {
	o, err := redis.ParseClusterURL(url)
	if err != nil {
		return nil, errors.New("parse redis url: want redis+cluster://[user:password@]host:port[?addr=host:port]")
	}
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = redisTimeout, redisTimeout, redisTimeout
	o.ContextTimeoutEnabled = true
	o.ClusterStateReloadInterval = clusterReload
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewClusterClient(o), nil
}
