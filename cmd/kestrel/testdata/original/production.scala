import com.twitter.conversions.storage._
import com.twitter.conversions.time._
import com.twitter.logging.config._
import com.twitter.ostrich.admin.config._
import net.lag.kestrel.config._

/* Settings of the mail cluster.
 * /* Ask on-call before changing them. */
 */
new KestrelConfig {
  listenAddress = "10.4.0.17"
  memcacheListenPort = 22133
  textListenPort = None // nobody uses it
  thriftListenPort = Some(2229)

  queuePath = "/var/spool/kestrel"

  clientTimeout = None
  expirationTimerFrequency = 1.second
  maxOpenTransactions = 100
  connectionBacklog = 1000
  statusChangeGracePeriod = 30.seconds
  defaultStatus = Up

  // What every queue gets.
  default.defaultJournalSize = 16.megabytes
  default.maxMemorySize = 128.megabytes
  default.maxJournalSize = 1.gigabyte
  default.syncJournal = 100.milliseconds

  admin.httpPort = 2223

  admin.statsNodes = new StatsConfig {
    reporters = new TimeSeriesCollectorConfig
  }

  queues = new QueueBuilder {
    name = "outgoing_mail"
    maxItems = 1500000
    maxAge = 30 * 60.seconds
    syncJournal = 0.seconds
  } :: new QueueBuilder {
    // Each data centre has a child of this one.
    name = "events"
    fanoutOnly = true
  } :: new QueueBuilder {
    name = "events+archive"
    maxSize = 512.megabytes + 128.megabytes
    discardOldWhenFull = true; maxItemSize = 64 * 1024
  } :: new QueueBuilder {
    name = "presence"
    keepJournal = false
    maxAge = Some(2.minutes)
    expireToQueue = "presence_late"
    maxExpireSweep = 1_000
  } :: new QueueBuilder {
    name = "rebuilds"
    syncJournal = Duration.MaxValue
    openTransactionTimeout = 1.hour
    maxQueueAge = 7.days
  }

  aliases = new AliasBuilder {
    name = "all_events"
    destinationQueues = List("events", "rebuilds")
  } :: new AliasBuilder {
    name = "nowhere"
  }

  loggers = new LoggerConfig {
    level = Level.INFO
    handlers = new FileHandlerConfig {
      filename = "/var/log/kestrel/kestrel.log"
      roll = Policy.Never
    }
  } :: new LoggerConfig {
    node = "stats"
    useParents = false
    handlers = new ScribeHandlerConfig { category = "kestrel" }
  }
}
